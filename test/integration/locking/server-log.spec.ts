import type { AmqpConnection } from '@golevelup/nestjs-rabbitmq';
import { SchedulerRegistry } from '@nestjs/schedule';
import { resolveOptions } from '../../../lib/resolved-options';
import { LockService } from '../../../lib/locking/lock.service';
import { LockStore } from '../../../lib/locking/lock-store';
import { OutboxDispatcher } from '../../../lib/outbox/outbox-dispatcher';
import { Transactions } from '../../../lib/transaction/transactions';
import { RabbitMqTransport } from '../../../lib/transport/rabbitmq/rabbitmq-transport';
import { type PrivateDatabase, startPrivateDatabase } from '../../support/private-database';
import { openTestBroker, type TestBroker } from '../../support/test-broker';
import { createTestDatabase, type TestDatabase } from '../../support/test-database';
import { waitFor } from '../../support/wait-for';
import { connectToBroker } from '../outbox-dispatch/dispatch-setup';
import { complete, RecordingLogger } from '../outbox-dispatch/outbox-table';
import type { LockConnection } from './contract/lock-database';
import { connectPostgres } from './contract/postgres-locks';
import { lockRow, type LockRow } from './lock-row';
import { fillPool, rotatingDriver } from './rotating-pool';

describe('C44: what locking leaves behind on the server', () => {
  let server: PrivateDatabase;
  let database: TestDatabase;
  let replicas: LockConnection[];
  let services: LockService[];
  beforeAll(async () => {
    server = await startPrivateDatabase({ config: { fsync: 'off', logging_collector: 'on' } });
    database = await createTestDatabase({ serverUrl: server.url, prefix: 'log' });
    replicas = await Promise.all([connectPostgres(database.url), connectPostgres(database.url)]);
    for (const sql of replicas[0]!.dialect.createTablesSql()) await database.query(sql);
    services = replicas.map(
      (replica) => new LockService({ store: new LockStore(replica), logger: new RecordingLogger() }),
    );
  });
  afterAll(async () => {
    await Promise.all((replicas ?? []).map((each) => each.close().catch(() => undefined)));
    await database?.close();
    await server?.close();
  });

  const config = { name: 'job', lockAtMostFor: '1m' } as const;
  const errors = async () => {
    const [row] = await database.query<{ log: string }>('SELECT pg_read_file(pg_current_logfile()) AS log');
    return row!.log.split('\n').filter((line) => line.includes('ERROR:'));
  };
  const advisoryLocks = async () => {
    const [row] = await database.query<{ count: string }>(
      `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'`,
    );
    return Number(row!.count);
  };

  it('C44: a hundred tries from two replicas leave no ERROR line and no advisory lock', async () => {
    const handle = await services[0]!.tryLock(config);
    const tries = await Promise.all(Array.from({ length: 100 }, (_, n) => services[n % 2]!.tryLock(config)));
    expect(tries.filter((each) => each !== undefined)).toEqual([]);
    expect(await advisoryLocks()).toBe(0);
    expect(await handle!.unlock()).toBe(true);
    expect(await advisoryLocks()).toBe(0);
    // The log is the one that errors would be in.
    await expect(database.query('SELECT * FROM "no such table"')).rejects.toThrow();
    const found = await waitFor('the log', async () => {
      const lines = await errors();
      return lines.length > 0 && lines;
    });
    expect(found).toEqual([expect.stringContaining('no such table')]);
  });

  it('C44: a try inside a business transaction neither spoils it nor is a part of it', async () => {
    const held = await services[0]!.tryLock(config);
    const transactions = new Transactions(replicas[1]!.dataSource);
    const before = (await errors()).length;
    await expect(
      transactions.run(async (manager) => {
        expect(await services[1]!.tryLock(config)).toBeUndefined();
        expect(await manager.query('SELECT 1 AS one')).toEqual([{ one: 1 }]);
        expect(await services[1]!.tryLock({ ...config, name: 'taken inside' })).toBeDefined();
        throw new Error('roll back');
      }),
    ).rejects.toThrow('roll back');
    expect(await services[0]!.tryLock({ ...config, name: 'taken inside' })).toBeUndefined();
    expect(await held!.unlock()).toBe(true);
    expect(await errors()).toHaveLength(before);
  });

  it('C44: whichever connections are killed, there is one holder all the time', async () => {
    const held = await services[0]!.tryLock(config);
    await database.query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'locks'`,
    );
    await waitFor('the second to ask again', async () => (await services[1]!.tryLock(config)) === undefined);
    const next = await waitFor('the holder', () => held!.extend('1m'));
    expect(next.fence).toBe(held!.fence);
    expect(await next.unlock()).toBe(true);
  });

  describe('two dispatchers, each with a pool of 5 whose connections are used in turn', () => {
    const LEASE = 2_000;
    const logger = new RecordingLogger();
    let broker: TestBroker;
    let amqp: AmqpConnection;
    let rotating: LockConnection[];
    let dispatchers: OutboxDispatcher[];
    beforeAll(async () => {
      broker = await openTestBroker();
      amqp = await connectToBroker(broker.url);
      const pool = { poolSize: 5, driver: rotatingDriver };
      rotating = await Promise.all([1, 2].map(() => connectPostgres(database.url, pool)));
      dispatchers = rotating.map(
        (each) =>
          new OutboxDispatcher({
            ...each,
            transport: new RabbitMqTransport(amqp),
            options: resolveOptions({ outbox: { lease: LEASE, pollInterval: 50, publishTimeout: 1_000 } })
              .outbox,
            scheduler: new SchedulerRegistry(),
            logger,
          }),
      );
    });
    afterAll(async () => {
      await Promise.all(dispatchers.map((each) => each.stop()));
      await Promise.all(rotating.map((each) => each.close()));
      await amqp?.close();
      await broker?.close();
    });

    const pids = (of: LockConnection) => fillPool((sql) => of.dataSource.query(sql), 5);

    it('C44: no advisory lock is left after a tick, and no ERROR line', async () => {
      const [first] = rotating as [LockConnection, LockConnection];
      const before = (await errors()).length;
      expect(new Set(await pids(first)).size).toBe(5);
      const queue = await broker.assertQueue('keys');
      const collector = await broker.collect(queue);
      const used = new Set<number>();
      for (let tick = 0; tick < 10; tick++) {
        await first.dataSource.transaction(async ({ queryRunner }) => {
          const [row] = (await queryRunner!.query('SELECT pg_backend_pid() AS pid')) as { pid: number }[];
          used.add(row!.pid);
          await first.dialect.outbox.insert(queryRunner!, [
            complete({ exchange: '', routingKey: queue, orderingKey: 'key' }),
          ]);
        });
        // One pass claims, which takes the advisory lock of claims, and sends and settles.
        expect(await dispatchers[tick % 2]!.runOnce()).toMatchObject({ sent: 1, end: 'idle' });
        expect(await advisoryLocks()).toBe(0);
      }
      expect(used.size).toBeGreaterThan(1);
      await waitFor('all ten', () => collector.messages.length === 10);
      expect(await errors()).toHaveLength(before);
    });

    it('C44: whichever pooled connection is killed, there are never two leaders, nor none for a lease', async () => {
      const before = (await errors()).length;
      for (const each of dispatchers) each.start();
      const lock = () => lockRow(database, 'outbox-dispatcher');
      const { fence } = await waitFor('one to lead', async () => {
        const row = await lock();
        return row?.held && row;
      });
      const leader = new Leaders();
      const watch = setInterval(() => void lock().then((row) => leader.saw(row)), 20);
      try {
        for (const each of rotating) {
          for (const pid of await pids(each)) {
            await database.query('SELECT pg_terminate_backend($1)', [pid]);
            const renewed = (await lock())!.lockedUntil;
            await waitFor('the next renewal', async () => (await lock())!.lockedUntil > renewed);
          }
        }
      } finally {
        clearInterval(watch);
      }
      expect(leader.longestGap).toBeLessThan(LEASE);
      expect(await lock()).toMatchObject({ held: true, fence });
      expect(await errors()).toHaveLength(before);
      expect(await advisoryLocks()).toBe(0);
    });
  });
});

/** For how long nobody has held the lock. Milliseconds. */
class Leaders {
  longestGap = 0;
  private last = performance.now();

  saw(row: LockRow | undefined): void {
    const now = performance.now();
    this.longestGap = Math.max(this.longestGap, row?.held ? 0 : now - this.last);
    if (row?.held) this.last = now;
  }
}
