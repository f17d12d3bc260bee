import { RabbitSubscribe } from '@golevelup/nestjs-rabbitmq';
import { Injectable, type INestApplicationContext } from '@nestjs/common';
import {
  type DeadMessage,
  DeadLetterService,
  getDeadLetterServiceToken,
  Idempotent,
  InboxOutboxModule,
  InvalidOptionError,
  NonRetryableError,
  OutboxService,
  Transactions,
} from '../../../lib';
import { resolveOptions } from '../../../lib/resolved-options';
import { openTestBroker, type TestBroker } from '../../support/test-broker';
import { createTestDatabase, type TestDatabase } from '../../support/test-database';
import { waitFor } from '../../support/wait-for';
import { startTestApp } from '../module/test-app';

const QUEUE = `dead-letters-${process.pid}`;

@Injectable()
class Claims {
  static healthy = false;
  static readonly handled: unknown[] = [];

  @RabbitSubscribe({ queue: QUEUE, queueOptions: { autoDelete: true } })
  @Idempotent({ consumer: 'claims', onFailure: 'retry' })
  onReported(claim: unknown): void {
    if (!Claims.healthy) throw new Error('the case system says no');
    Claims.handled.push(claim);
  }
}

describe('Dead letters of an application', () => {
  let database: TestDatabase;
  let broker: TestBroker;
  let app: INestApplicationContext;
  let outbox: OutboxService;
  let deadLetters: DeadLetterService;
  const alarms: DeadMessage[] = [];
  const judged: unknown[] = [];

  beforeAll(async () => {
    [database, broker] = await Promise.all([createTestDatabase(), openTestBroker()]);
    app = await startTestApp({
      ...{ database, broker, providers: [Claims] },
      inboxOutbox: [
        InboxOutboxModule.forRoot({
          onDead(message) {
            alarms.push(message);
            throw new Error('the pager is broken');
          },
          outbox: {
            pollInterval: 50,
            backoff: (attempts) => attempts * 20,
            retryIf: (error) => judged.push(error) > 0,
          },
          inbox: { pollInterval: 50, maxAttempts: 2, backoff: { initialDelay: 20 } },
        }),
      ],
    });
    outbox = app.get(OutboxService);
    deadLetters = app.get(getDeadLetterServiceToken());
  });
  afterAll(async () => {
    await app?.close();
    await Promise.all([database?.close(), broker?.close()]);
  });

  const publish = (...args: Parameters<OutboxService['publish']>) =>
    app.get(Transactions).run(() => outbox.publish(...args));
  const alarm = (messageId: string) =>
    waitFor('the alarm', () => alarms.find((each) => each.messageId === messageId));

  it('an outbox message that died is told, listed, replayed with the same id, and arrives', async () => {
    const exchange = broker.exchange('events');
    const id = await publish(exchange, 'nobody.yet', { claim: 4711 }, { retry: { maxAttempts: 2 } });
    expect(await alarm(id)).toEqual({
      ...{
        box: 'outbox',
        dataSource: 'default',
        messageId: id,
        exchange,
        routingKey: 'nobody.yet',
        attempts: 2,
      },
      error: expect.stringContaining('NO_ROUTE'),
    });
    expect(judged.length).toBeGreaterThanOrEqual(2);
    const { letters } = await deadLetters.list({ box: 'outbox', errorContains: 'no_route' });
    expect(letters.map(({ messageId }) => messageId)).toEqual([id]);

    const queue = await broker.assertQueue('now-bound');
    await broker.bind(queue, exchange, 'nobody.yet');
    expect(await deadLetters.replay(letters[0]!)).toBe(1);
    const message = await waitFor('the message', () => broker.get(queue));
    expect(message.properties.messageId).toBe(id);
    expect(JSON.parse(message.content.toString())).toEqual({ claim: 4711 });
  });

  it('an inbox message that died is told, replayed, and handled once', async () => {
    const id = await publish('', QUEUE, { claim: 4712 });
    expect(await alarm(id)).toMatchObject({
      box: 'inbox',
      consumer: 'claims',
      attempts: 2,
      routingKey: QUEUE,
    });
    const which = { box: 'inbox', consumer: 'claims', messageId: id } as const;
    const letter = await deadLetters.get(which);
    expect(letter).toMatchObject({ error: expect.stringContaining('the case system says no') });
    expect(JSON.parse(letter!.body.toString())).toEqual({ claim: 4712 });
    expect(Date.now() - letter!.diedAt.getTime()).toBeLessThan(30_000);

    Claims.healthy = true;
    const counts = await Promise.all([deadLetters.replay(which), deadLetters.replay(which)]);
    expect(counts.sort()).toEqual([0, 1]);
    await waitFor('it to be handled', () => Claims.handled.length > 0);
    await waitFor('it to be done', async () => (await deadLetters.get(which)) === undefined);
    expect(await deadLetters.replay(which)).toBe(0);
    expect(Claims.handled).toEqual([{ claim: 4712 }]);
    expect(alarms.filter(({ messageId }) => messageId === id)).toHaveLength(1);
  });

  it('options that cannot work are refused by name', () => {
    const bad = [
      ['onDead', { onDead: 'mail' }],
      ['outbox.retryIf', { outbox: { retryIf: true } }],
      ['outbox.backoff.factor', { outbox: { backoff: { factor: 0 } } }],
      ['outbox.backoff', { outbox: { backoff: 5 } }],
      ['outbox.deduplicationRetention', { outbox: { deduplicationRetention: -1 } }],
    ] as const;
    for (const [option, options] of bad) {
      expect(() => resolveOptions(options as never)).toThrow(InvalidOptionError);
      expect(() => resolveOptions(options as never)).toThrow(`"${option}"`);
    }
    expect(new NonRetryableError('no', { cause: 1 })).toMatchObject({ name: 'NonRetryableError', cause: 1 });
  });
});
