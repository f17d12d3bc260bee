import 'reflect-metadata';
import {
  ackErrorHandler,
  defaultNackErrorHandler,
  MessageHandlerErrorBehavior,
  requeueErrorHandler,
  type AmqpConnection,
  type MessageErrorHandler,
  type RabbitHandlerConfig,
} from '@golevelup/nestjs-rabbitmq';
import { Logger } from '@nestjs/common';
import type { Delivery } from '../../../lib/inbox/delivery';
import { protectErrorPath } from '../../../lib/inbox/error-path';
import { Inboxes } from '../../../lib/inbox/inboxes';
import type { RegisteredHandler } from '../../../lib/inbox/registered-handler';
import { ack, reject, requeue, type Settlement } from '../../../lib/inbox/settlement';

class IllegalOperationError extends Error {
  override readonly name = 'IllegalOperationError';
}

interface Scene {
  readonly config?: Partial<RabbitHandlerConfig>;
  readonly entry?: Partial<RabbitHandlerConfig>;
  readonly defaults?: object;
  readonly onFailure?: 'reject' | 'requeue';
  readonly answer?: Settlement;
  readonly closed?: boolean;
}

/** Has golevelup's error handler called for one message. */
async function report(
  scene: Scene,
): Promise<{ sent: string[]; asked: Delivery[]; target: RabbitHandlerConfig }> {
  const sent: string[] = [];
  const asked: Delivery[] = [];
  const send = (what: string) => {
    sent.push(what);
    if (scene.closed) throw new IllegalOperationError('Channel closed');
  };
  const channel = {
    ack: () => send('ack'),
    nack: (_message: unknown, _upTo: boolean, again: boolean) => send(again ? 'requeue' : 'reject'),
  };
  const settleFailure = (delivery: Delivery) => {
    asked.push(delivery);
    return Promise.resolve(delivery.policy.onFailure === 'requeue' ? requeue : reject);
  };
  const handler = {
    name: 'Consumer.handle',
    inbox: { deliveries: { settleFailure } },
    policy: { consumer: 'Consumer.handle', onFailure: scene.onFailure ?? 'reject' },
  } as unknown as RegisteredHandler;
  const inboxes = new Inboxes();
  const message = { content: Buffer.alloc(0), fields: {}, properties: {} };
  if (scene.answer) inboxes.answers.remember(message, { handler, settlement: scene.answer });

  const config: RabbitHandlerConfig = { ...scene.config, type: scene.config?.type ?? 'subscribe' };
  const connection = {
    configuration: {
      defaultSubscribeErrorBehavior: MessageHandlerErrorBehavior.REQUEUE,
      defaultRpcErrorHandler: requeueErrorHandler,
      ...scene.defaults,
    },
  } as unknown as AmqpConnection;
  const effective = { ...config, ...scene.entry, type: config.type };
  protectErrorPath(config, [{ connection, entry: scene.entry, effective }], [handler], inboxes);
  const target = { ...config, ...scene.entry, type: config.type };
  await target.errorHandler?.(channel as never, message as never, new Error('what was wrong'));
  return { sent, asked, target };
}

describe("golevelup's error path", () => {
  beforeAll(() => void Logger.overrideLogger(false));

  it.each(['reject', 'requeue'] as const)(
    "follows the handler's onFailure (%s) when nothing is configured",
    async (onFailure) => {
      const { sent, asked } = await report({ onFailure });
      expect(sent).toEqual([onFailure]);
      expect(asked).toHaveLength(1);
    },
  );

  it.each<[string, Scene, string]>([
    [
      'errorBehavior NACK',
      { config: { errorBehavior: MessageHandlerErrorBehavior.NACK }, onFailure: 'requeue' },
      'reject',
    ],
    ['errorBehavior REQUEUE', { config: { errorBehavior: MessageHandlerErrorBehavior.REQUEUE } }, 'requeue'],
    ['errorBehavior ACK', { config: { errorBehavior: MessageHandlerErrorBehavior.ACK } }, 'ack'],
    ['requeueErrorHandler', { config: { errorHandler: requeueErrorHandler } }, 'requeue'],
    [
      'defaultNackErrorHandler',
      { config: { errorHandler: defaultNackErrorHandler }, onFailure: 'requeue' },
      'reject',
    ],
    ['ackErrorHandler', { config: { errorHandler: ackErrorHandler } }, 'ack'],
    [
      'a default of the connection',
      { defaults: { defaultSubscribeErrorBehavior: MessageHandlerErrorBehavior.NACK }, onFailure: 'requeue' },
      'reject',
    ],
    [
      'an entry of the handlers',
      { entry: { errorBehavior: MessageHandlerErrorBehavior.NACK }, onFailure: 'requeue' },
      'reject',
    ],
    [
      'a default for RPC',
      {
        config: { type: 'rpc' },
        defaults: { defaultRpcErrorHandler: defaultNackErrorHandler },
        onFailure: 'requeue',
      },
      'reject',
    ],
  ])('does what the application has configured: %s', async (_name, scene, expected) => {
    expect((await report(scene)).sent).toEqual([expected]);
  });

  it("calls the application's own errorHandler", async () => {
    const own = jest.fn<void, Parameters<MessageErrorHandler>>();
    const { sent } = await report({ config: { errorHandler: own } });
    expect(own).toHaveBeenCalledTimes(1);
    expect(sent).toEqual([]);
  });

  it('G6: a closed channel ends nothing, whoever runs into it', async () => {
    const own: MessageErrorHandler = (channel, message) => channel.nack(message);
    for (const scene of [{}, { answer: ack() }, { answer: requeue }, { config: { errorHandler: own } }]) {
      await expect(report({ ...scene, closed: true })).resolves.toBeDefined();
    }
  });

  it('G6: what fails after the commit does not turn it into a failure', async () => {
    const own = jest.fn<void, Parameters<MessageErrorHandler>>();
    const { sent, asked } = await report({ answer: ack(), config: { errorHandler: own } });
    expect(sent).toEqual(['ack']);
    expect(asked).toEqual([]);
    expect(own).not.toHaveBeenCalled();
  });

  it('a commit that depended on a transaction of the application counts as failed', async () => {
    const { sent } = await report({ answer: { kind: 'ack', value: 1, provisional: true } });
    expect(sent).toEqual(['reject']);
  });

  it('a second application in the process starts from what was configured, not from the first one', async () => {
    const own = jest.fn<void, Parameters<MessageErrorHandler>>();
    const first = await report({ config: { errorHandler: own } });
    await report({ config: first.target });
    expect(own).toHaveBeenCalledTimes(2);
  });
});
