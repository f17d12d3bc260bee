import { type AmqpConnectionManager, RabbitMQModule, RabbitSubscribe } from '@golevelup/nestjs-rabbitmq';
import { Injectable, Module, type INestApplicationContext, type Type } from '@nestjs/common';
import { Interval, ScheduleModule, SchedulerRegistry } from '@nestjs/schedule';
import { DataSource, EntityManager } from 'typeorm';
import {
  Idempotent,
  inboxOutboxEntities,
  InboxOutboxModule,
  InboxOutboxSchemaError,
  InvalidOptionError,
  OutboxDispatcher,
  OutboxService,
  type InboxOutboxModuleOptions,
} from '../../../lib';
import { openTestBroker, type TestBroker } from '../../support/test-broker';
import { createTestDatabase, type TestDatabase } from '../../support/test-database';
import { waitFor } from '../../support/wait-for';
import { startTestApp, type TestAppOptions } from './test-app';

let database: TestDatabase;
let broker: TestBroker;
let app: INestApplicationContext | undefined;

beforeAll(async () => {
  [database, broker] = await Promise.all([createTestDatabase(), openTestBroker()]);
});
afterEach(async () => {
  await app?.close();
  app = undefined;
});
afterAll(() => Promise.all([database.close(), broker.close()]));

async function start(options: Partial<TestAppOptions> = {}): Promise<INestApplicationContext> {
  app = await startTestApp({ database, broker, inboxOutbox: [InboxOutboxModule.forRoot()], ...options });
  return app;
}

/** The application does not start, and says why. */
async function refusal(options: Partial<TestAppOptions>): Promise<Error> {
  try {
    await start(options);
  } catch (error) {
    // golevelup's connection is there already, or still being made; left open it would keep this process alive.
    const { connectionManager } = RabbitMQModule as unknown as { connectionManager: AmqpConnectionManager };
    await waitFor('connections', () => connectionManager.getConnections().every((each) => each.connected));
    await connectionManager.close();
    connectionManager.clearConnections();
    return error as Error;
  }
  throw new Error('The application started');
}

describe('options', () => {
  const bad: [string, InboxOutboxModuleOptions, string][] = [
    ['outbox.batchSize', { outbox: { batchSize: 0 } }, '0'],
    ['outbox.lease', { outbox: { lease: 'soon' as never } }, "'soon'"],
    ['outbox.pollInterval', { outbox: { pollInterval: 2 ** 31 } }, '2147483648'],
    ['outbox.publishTimeout', { outbox: { lease: '5s', publishTimeout: '5s' } }, "'5s'"],
    ['outbox.dispatch', { outbox: { dispatch: 'leeder' as never } }, "'leeder'"],
    ['transactionSources[0]', { transactionSources: [{ name: 'x' } as never] }, "{ name: 'x' }"],
    ['outbox.serializer', { outbox: { serializer: {} as never } }, '{}'],
    ['outbox.propagateContext', { outbox: { propagateContext: 'yes' as never } }, "'yes'"],
    ['outbox.backoff.factor', { outbox: { backoff: { factor: NaN } } }, 'NaN'],
    ['inbox.retention', { inbox: { retention: -1 } }, '-1'],
    ['inbox.onFailure', { inbox: { onFailure: 'ignore' as never } }, "'ignore'"],
    ['inbox.maxAttempts', { inbox: { maxAttempts: 1.5 } }, '1.5'],
    ['shutdownTimeout', { shutdownTimeout: '' as never }, "''"],
    ['outbox.batchsize', { outbox: { batchsize: 5 } as never }, '5'],
    ['inbox', { inbox: null as never }, 'null'],
  ];

  test.each(bad)('%s is refused at start, with its name and value', async (option, options, value) => {
    const error = await refusal({ inboxOutbox: [InboxOutboxModule.forRoot(options)] });
    expect(error).toBeInstanceOf(InvalidOptionError);
    expect(error.message).toContain(`"${option}" is ${value};`);
  });

  test('table names are checked when the module is declared', () => {
    expect(() => InboxOutboxModule.forRoot({ outboxTable: '' })).toThrow(/"outboxTable" is ''/);
    expect(() => InboxOutboxModule.forRoot({ outboxTable: 'x', inboxTable: 'x' })).toThrow(
      InvalidOptionError,
    );
  });

  test('forRootAsync takes its options from a factory with dependencies', async () => {
    const config = { provide: 'CONFIG', useValue: { interval: '5s' as const } };
    @Module({ providers: [config], exports: [config] })
    class ConfigModule {}
    await start({
      inboxOutbox: [
        InboxOutboxModule.forRootAsync({
          imports: [ConfigModule],
          inject: ['CONFIG'],
          useFactory: ({ interval }: { interval: '5s' }) => ({ outbox: { pollInterval: interval } }),
        }),
      ],
    });
    expect(app?.get(OutboxService)).toBeInstanceOf(OutboxService);
  });

  test('forRootAsync takes a class', async () => {
    @Injectable()
    class Options {
      create(): InboxOutboxModuleOptions {
        return { outbox: { dispatch: 'off' } };
      }
    }
    await start({ inboxOutbox: [InboxOutboxModule.forRootAsync({ useClass: Options })] });
    expect(app?.get(OutboxService)).toBeInstanceOf(OutboxService);
  });
});

describe('tables', () => {
  test('missing tables are named, with the remedy', async () => {
    const empty = await createTestDatabase();
    try {
      const error = await refusal({ database: empty, dataSource: { synchronize: false } });
      expect(error).toBeInstanceOf(InboxOutboxSchemaError);
      for (const table of ['outbox_message', 'inbox_message', 'shedlock']) {
        expect(error.message).toContain(`the table "${table}" does not exist`);
      }
      expect(error.message).toMatch(/synchronize.*migration.*sql\/postgres\.sql/);
    } finally {
      await empty.close();
    }
  });

  test('a missing column is named', async () => {
    await start();
    await app?.close();
    await database.query('ALTER TABLE outbox_message RENAME COLUMN claim_token TO token');
    const error = await refusal({ dataSource: { synchronize: false } });
    await database.query('ALTER TABLE outbox_message RENAME COLUMN token TO claim_token');
    expect(error.message).toContain('the table "outbox_message" has no column "claim_token"');
    expect(error.message).not.toContain('inbox_message');
  });

  test('a data source that does not know the entities is told how to', async () => {
    const error = await refusal({ dataSource: { autoLoadEntities: false } });
    expect(error).toBeInstanceOf(InboxOutboxSchemaError);
    expect(error.message).toContain('inboxOutboxEntities()');
  });

  test('inboxOutboxEntities() serves a data source without autoLoadEntities', async () => {
    await start({ dataSource: { autoLoadEntities: false, entities: inboxOutboxEntities() } });
    expect(app?.get(OutboxService)).toBeInstanceOf(OutboxService);
  });

  test('names can be chosen', async () => {
    const names = { outboxTable: 'order', inboxTable: 'Inbox', lockTable: 'locks' };
    await start({ inboxOutbox: [InboxOutboxModule.forRoot(names)] });
    const id = await app!
      .get(DataSource)
      .transaction(() => app!.get(OutboxService).publish('', broker.queue('nowhere'), {}, { delay: '1h' }));
    expect(await database.query('SELECT message_id FROM "order"')).toEqual([{ message_id: id }]);
  });
});

describe('jobs', () => {
  @Injectable()
  class Ticker {
    ticks = 0;
    @Interval(100)
    tick() {
      this.ticks += 1;
    }
  }
  const names = ['outbox-dispatcher', 'outbox-cleaner', 'inbox-cleaner'];

  test("with ScheduleModule: the app's own @Interval runs once per tick, and our jobs are in its registry", async () => {
    await start({ imports: [ScheduleModule.forRoot()], providers: [Ticker] });
    const ticker = app!.get(Ticker);
    const begin = performance.now();
    await waitFor('twenty ticks', () => ticker.ticks >= 20);
    // Twice per tick would take half of it. Slower than planned is the machine's business.
    expect(performance.now() - begin).toBeGreaterThan(1_500);
    expect(app!.get(SchedulerRegistry).getIntervals()).toEqual(expect.arrayContaining(names));
  });

  test('without ScheduleModule the dispatcher runs all the same, and messages leave', async () => {
    await start({ inboxOutbox: [InboxOutboxModule.forRoot({ outbox: { pollInterval: 50 } })] });
    const queue = await broker.assertQueue('jobs');
    await app!.get(DataSource).transaction(() => app!.get(OutboxService).publish('', queue, { n: 1 }));
    await waitFor('the message', () => broker.get(queue));
  });

  test('a user stops the dispatcher by its name in the registry', async () => {
    await start({
      imports: [ScheduleModule.forRoot()],
      inboxOutbox: [InboxOutboxModule.forRoot({ outbox: { pollInterval: 50 } })],
    });
    app!.get(SchedulerRegistry).deleteInterval('outbox-dispatcher');
    const queue = await broker.assertQueue('stopped');
    await app!.get(DataSource).transaction(() => app!.get(OutboxService).publish('', queue, { n: 1 }));
    expect((await database.query('SELECT status FROM outbox_message')).length).toBe(1);
    expect(await app!.get(OutboxDispatcher).runOnce()).toMatchObject({ sent: 1 });
  });

  test('C17: imported by two feature modules, there is one dispatcher and one interceptor', async () => {
    const effects: number[] = [];
    @Injectable()
    class Consumer {
      constructor(private readonly manager: EntityManager) {}
      @RabbitSubscribe({ queue: broker.queue('twice'), queueOptions: { autoDelete: true } })
      @Idempotent()
      async handle(message: { n: number }): Promise<void> {
        await this.manager.query('SELECT 1');
        effects.push(message.n);
      }
    }
    const options = { outbox: { pollInterval: 50 } };
    const feature = (): Type => {
      @Module({ imports: [InboxOutboxModule.forRoot(options)] })
      class Feature {}
      return Feature;
    };
    await start({
      imports: [ScheduleModule.forRoot()],
      inboxOutbox: [feature(), feature()],
      providers: [Consumer],
    });
    const intervals = app!.get(SchedulerRegistry).getIntervals();
    expect(intervals.filter((name) => name.startsWith('outbox-dispatcher'))).toHaveLength(1);
    await broker.sendToQueue(broker.queue('twice'), { n: 1 }, { messageId: 'once' });
    await broker.sendToQueue(broker.queue('twice'), { n: 1 }, { messageId: 'once' });
    await broker.sendToQueue(broker.queue('twice'), { n: 2 }, { messageId: 'last' });
    await waitFor('the last message', () => effects.includes(2));
    expect(effects).toEqual([1, 2]);
    const rows = await database.query("SELECT attempts FROM inbox_message WHERE message_id = 'once'");
    expect(rows).toEqual([{ attempts: 1 }]);
  });

  test('imported twice with different options it does not start', async () => {
    const error = await refusal({
      inboxOutbox: [InboxOutboxModule.forRoot(), InboxOutboxModule.forRoot({ outbox: { batchSize: 7 } })],
    });
    expect(error.message).toContain('different options');
  });
});

test('an unknown RabbitMQ connection is named at start', async () => {
  const error = await refusal({ inboxOutbox: [InboxOutboxModule.forRoot({ connection: 'nowhere' })] });
  expect(error.message).toContain('"nowhere"');
});

test('after the application has closed, the data source and TypeORM are as they were', async () => {
  const members = (owner: object) => Object.getOwnPropertyDescriptors(owner);
  const before = [members(EntityManager.prototype), members(DataSource.prototype)];
  await start();
  expect(members(EntityManager.prototype)).not.toEqual(before[0]);
  const dataSource = app!.get(DataSource);
  await app!.close();
  expect([members(EntityManager.prototype), members(DataSource.prototype)]).toEqual(before);
  expect(dataSource.isInitialized).toBe(false);
});

test('after an application that refused to start, too', async () => {
  const before = Object.getOwnPropertyDescriptors(EntityManager.prototype);
  await refusal({ inboxOutbox: [InboxOutboxModule.forRoot({ connection: 'nowhere' })] });
  expect(Object.getOwnPropertyDescriptors(EntityManager.prototype)).toEqual(before);
});
