import { LockService } from '../../../lib/locking/lock.service';
import { LockStore } from '../../../lib/locking/lock-store';
import { Transactions } from '../../../lib/transaction/transactions';
import { type PrivateDatabase, startPrivateDatabase } from '../../support/private-database';
import { createTestDatabase, type TestDatabase } from '../../support/test-database';
import { waitFor } from '../../support/wait-for';
import { RecordingLogger } from '../outbox-dispatch/outbox-table';
import type { LockConnection } from './contract/lock-database';
import { connectPostgres } from './contract/postgres-locks';

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
});
