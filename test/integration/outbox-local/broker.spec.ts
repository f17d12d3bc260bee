import { RabbitMQModule } from '@golevelup/nestjs-rabbitmq';
import { Injectable } from '@nestjs/common';
import { DataSource, EntityManager } from 'typeorm';
import { OutboxHandler, OutboxService } from '../../../lib';
import type { Collector } from '../../support/message-collector';
import { openTestBroker, type TestBroker } from '../../support/test-broker';
import { startTcpProxy, type TcpProxy } from '../../support/tcp-proxy';
import { waitFor } from '../../support/wait-for';
import { LocalSetup, type LocalApp } from './local-setup';

let letGo: () => void = () => undefined;

@Injectable()
class Handlers {
  constructor(
    private readonly manager: EntityManager,
    private readonly outbox: OutboxService,
  ) {}

  @OutboxHandler('save')
  async save({ name, queue }: { name: string; queue?: string }): Promise<void> {
    await this.manager.query('INSERT INTO effect (name) VALUES ($1)', [name]);
    if (queue !== undefined) await this.outbox.publish('', queue, { from: name });
  }

  @OutboxHandler('slow')
  slow(): Promise<void> {
    return new Promise((resolve) => (letGo = resolve));
  }
}

/** One application with both: a broker and local handlers do not get into each other's way. */
describe('local handlers beside a broker', () => {
  let setup: LocalSetup;
  let broker: TestBroker;
  let proxy: TcpProxy;
  let queue: string;
  let collector: Collector;
  let app: LocalApp;

  beforeAll(async () => {
    [setup, broker] = await Promise.all([LocalSetup.open(), openTestBroker()]);
    proxy = await startTcpProxy(broker.url);
    queue = await broker.assertQueue('target');
    collector = await broker.collect(queue);
    app = await setup.start({
      providers: [Handlers],
      outbox: { lease: 2_000, publishTimeout: 500 },
      imports: [
        RabbitMQModule.forRoot({
          uri: proxy.through(broker.url),
          connectionManagerOptions: { reconnectTimeInSeconds: 0.2, heartbeatIntervalInSeconds: 2 },
        }),
      ],
    });
  });
  afterAll(async () => {
    await setup.close();
    await Promise.all([proxy.close(), broker.close()]);
  });

  const publish = (n: number) =>
    app.context.get(DataSource).transaction(() => app.context.get(OutboxService).publish('', queue, { n }));

  it('a message that a handler publishes leaves after its commit', async () => {
    await app.enqueue('save', { name: 'first', queue });
    await collector.count(1);
    expect(await setup.effects()).toEqual(['first']);
  });

  it('a handler that takes its time holds up no message to the broker', async () => {
    const slow = await app.enqueue('slow');
    await waitFor('the slow one', async () =>
      (await setup.rows()).some(({ message_id, claim_token }) => message_id === slow && claim_token),
    );
    await publish(1);
    await collector.count(2);
    letGo();
    await waitFor('an empty outbox', async () => (await setup.rows()).length === 0);
  });

  it('C05: a broker that is away or hangs holds up no handler', async () => {
    await proxy.refuse();
    await publish(2);
    await app.enqueue('save', { name: 'while away' });
    await waitFor('the effect', async () => (await setup.effects()).includes('while away'));
    await proxy.accept();
    await collector.count(3);

    proxy.hold();
    await publish(3);
    await app.enqueue('save', { name: 'while it hangs' });
    await waitFor('the effect', async () => (await setup.effects()).includes('while it hangs'));
    proxy.resume();
    await collector.count(4);
  });
});
