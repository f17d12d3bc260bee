import { Logger } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { ConnectionLostError } from '../../../lib/transaction/connection-lost.error';
import { ownTransaction } from '../../../lib/transaction/own-work';
import { waitFor } from '../../support/wait-for';
import { createBench, Note, type Bench } from './fixtures';

const POOL_SIZE = 3;

interface Pool {
  readonly totalCount: number;
  readonly idleCount: number;
}

describe('C05: the server kills a connection inside a transaction', () => {
  let bench: Bench;
  const uncaught: unknown[] = [];
  const onUncaught = (error: unknown) => void uncaught.push(error);
  const pool = () => (bench.dataSource.driver as unknown as { master: Pool }).master;
  const pidOf = async (query: (sql: string) => Promise<unknown>) => {
    const [row] = (await query('SELECT pg_backend_pid() AS pid')) as { pid: number }[];
    return row!.pid;
  };
  const kill = async (pid: number) => {
    await bench.database.query('SELECT pg_terminate_backend($1)', [pid]);
    await waitFor('the backend to be gone', async () => {
      const alive = await bench.database.query('SELECT 1 FROM pg_stat_activity WHERE pid = $1', [pid]);
      return alive.length === 0;
    });
  };

  beforeAll(async () => {
    bench = await createBench({ poolSize: POOL_SIZE });
    process.on('uncaughtException', onUncaught).on('unhandledRejection', onUncaught);
  });
  afterAll(async () => {
    process.off('uncaughtException', onUncaught).off('unhandledRejection', onUncaught);
    await bench?.close();
  });
  beforeEach(async () => {
    await bench.clear();
    jest.spyOn(Logger.prototype, 'error').mockImplementation(() => undefined);
    jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => undefined);
  });
  afterEach(() => jest.restoreAllMocks());

  /** All connections of the pool work at the same time, and none that was killed is among them. */
  async function expectFullPool(killed: number) {
    const runners = Array.from({ length: POOL_SIZE }, () => bench.dataSource.createQueryRunner());
    try {
      const pids = await Promise.all(runners.map((runner) => pidOf((sql) => runner.query(sql))));
      expect(new Set(pids).size).toBe(POOL_SIZE);
      expect(pids).not.toContain(killed);
      expect(pool().totalCount).toBe(POOL_SIZE);
    } finally {
      await Promise.all(runners.map((runner) => runner.release()));
    }
    expect(pool().idleCount).toBe(POOL_SIZE);
    expect(uncaught).toEqual([]);
  }

  const useAfterwards: [string, (dataSource: DataSource) => Promise<unknown>][] = [
    ['a repository', (dataSource) => dataSource.getRepository(Note).save({ text: 'late' })],
    ['dataSource.query()', (dataSource) => dataSource.query('SELECT 1')],
    ['a nested transaction', (dataSource) => dataSource.transaction(async () => undefined)],
    ['nothing more', () => Promise.resolve()],
  ];

  it.each(useAfterwards)('noticed while nothing runs, then %s: the caller learns why', async (_name, use) => {
    const { dataSource } = bench;
    let pid = 0;
    const failed = dataSource.transaction(async (manager) => {
      await dataSource.getRepository(Note).save({ text: 'x' });
      pid = await pidOf((sql) => dataSource.query(sql));
      await kill(pid);
      await waitFor('the client to notice', () => manager.queryRunner?.isReleased);
      await use(dataSource).catch((error: unknown) => {
        expect(error).toBeInstanceOf(ConnectionLostError); // also for those who look at it inside
        throw error;
      });
    });
    await expect(failed).rejects.toBeInstanceOf(ConnectionLostError);
    await expect(failed).rejects.toMatchObject({
      code: '57P01',
      message: expect.stringContaining('57P01') as string,
    });
    expect(await bench.texts()).toEqual([]);
    await expectFullPool(pid);
  });

  it.each<[string, (manager: EntityManager) => Promise<unknown>]>([
    ['save()', (manager) => manager.save(Note, { text: 'late' })],
    ['query()', (manager) => manager.query('SELECT 1')],
    ['transaction()', (manager) => manager.transaction(async () => undefined)],
  ])('through %s of the manager in hand too', async (_name, use) => {
    let pid = 0;
    const failed = bench.dataSource.transaction(async (manager) => {
      pid = await pidOf((sql) => manager.query(sql));
      await kill(pid);
      await waitFor('the client to notice', () => manager.queryRunner?.isReleased);
      await use(manager);
    });
    await expect(failed).rejects.toMatchObject({ name: 'ConnectionLostError', code: '57P01' });
    await expectFullPool(pid);
  });

  it('while a statement runs: its own error reaches the caller', async () => {
    let pid = 0;
    const failed = bench.dataSource.transaction(async () => {
      pid = await pidOf((sql) => bench.dataSource.query(sql));
      const statement = bench.dataSource.query('SELECT pg_sleep(60)');
      statement.catch(() => undefined);
      await waitFor('the statement to run', async () => {
        const [row] = await bench.database.query('SELECT wait_event FROM pg_stat_activity WHERE pid = $1', [
          pid,
        ]);
        return row?.wait_event === 'PgSleep';
      });
      await kill(pid);
      await statement;
    });
    await expect(failed).rejects.toMatchObject({ name: 'QueryFailedError', code: '57P01' });
    await expectFullPool(pid);
  });

  it('in a nested transaction', async () => {
    let pid = 0;
    const failed = bench.dataSource.transaction(async () => {
      await bench.dataSource.transaction(async (manager) => {
        pid = await pidOf((sql) => manager.query(sql));
        await kill(pid);
        await waitFor('the client to notice', () => manager.queryRunner?.isReleased);
        await bench.dataSource.getRepository(Note).find();
      });
    });
    await expect(failed).rejects.toMatchObject({ name: 'ConnectionLostError', code: '57P01' });
    await expectFullPool(pid);
  });

  it("in a transaction of the module's own", async () => {
    let pid = 0;
    const failed = ownTransaction(
      bench.dataSource,
      { statementTimeout: 5_000, lockTimeout: 1_000 },
      async (runner) => {
        pid = await pidOf((sql) => runner.query(sql));
        const statement = runner.query('SELECT pg_sleep(60)');
        statement.catch(() => undefined);
        await kill(pid);
        await statement;
      },
    );
    await expect(failed).rejects.toMatchObject({ code: '57P01' });
    await expectFullPool(pid);
  });
});
