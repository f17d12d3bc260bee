import { DataSource, QueryFailedError, type QueryRunner } from 'typeorm';
import { ownRead, ownTransaction, runOutside } from '../../../lib/transaction/own-work';
import { DatabaseUnansweredError } from '../../../lib/transaction/unanswered.error';
import { Transactions } from '../../../lib/transaction/transactions';
import { UnsupportedDatabaseError } from '../../../lib/persistence/unsupported-database.error';
import { waitFor } from '../../support/wait-for';
import { createBench, expectNothingOpen, Note, Rollback, signal, type Bench } from './fixtures';

describe("the module's own work", () => {
  let bench: Bench;
  const limits = { statementTimeout: 10_000, lockTimeout: 5_000 };
  const own = <T>(work: (runner: QueryRunner) => Promise<T>, options = limits) =>
    ownTransaction(bench.dataSource, options, work);

  beforeAll(async () => {
    bench = await createBench({ poolSize: 2, isolationLevel: 'SERIALIZABLE' });
  });
  afterAll(() => bench?.close());
  beforeEach(() => bench.clear());
  afterEach(() => expectNothingOpen(bench));

  it('runs outside of the transaction around it, on a runner of its own that is released', async () => {
    const transactions = new Transactions(bench.dataSource);
    let used: QueryRunner | undefined;
    const failed = transactions.run(async (manager) => {
      await runOutside(bench.dataSource, async (runner) => {
        used = runner;
        expect(runner).not.toBe(manager.queryRunner);
        expect(transactions.active()).toBeUndefined();
        await runner.manager.insert(Note, { text: 'claimed' });
      });
      await own((runner) => runner.manager.insert(Note, { text: 'settled' }));
      throw new Rollback();
    });
    await expect(failed).rejects.toThrow(Rollback);
    expect(used?.isReleased).toBe(true);
    expect(await bench.texts()).toEqual(['claimed', 'settled']);
  });

  it('releases the runner when the work throws', async () => {
    for (let i = 0; i < 5; i++) {
      await expect(runOutside(bench.dataSource, () => Promise.reject(new Rollback()))).rejects.toThrow(
        Rollback,
      );
      await expect(own(() => Promise.reject(new Rollback()))).rejects.toThrow(Rollback);
    }
    await bench.dataSource.query('SELECT 1');
  });

  it('is READ COMMITTED with its limits, in one round trip, whatever the defaults are', async () => {
    const seen = await own(async (runner) => {
      expect(runner.isTransactionActive).toBe(true);
      const [row] = await runner.query(
        `SELECT current_setting('transaction_isolation') AS level, current_setting('statement_timeout') AS statement,
                current_setting('lock_timeout') AS lock`,
      );
      return row as unknown;
    });
    expect(seen).toEqual({ level: 'read committed', statement: '10s', lock: '5s' });
    const [after] = await bench.dataSource.query(`SELECT current_setting('statement_timeout') AS statement`);
    expect(after).toEqual({ statement: '0' });
  });

  it('takes the isolation level asked for', async () => {
    const level = await ownTransaction(
      bench.dataSource,
      { ...limits, isolationLevel: 'REPEATABLE READ' },
      async (runner) => (await runner.query('SHOW transaction_isolation'))[0].transaction_isolation as string,
    );
    expect(level).toBe('repeatable read');
  });

  it('saves of its manager are part of it: all rolled back together', async () => {
    const failed = own(async (runner) => {
      await runner.manager.save(Note, { text: 'x' });
      await runner.manager.transaction((nested) => nested.save(Note, { text: 'nested' }));
      throw new Rollback();
    });
    await expect(failed).rejects.toThrow(Rollback);
    expect(await bench.texts()).toEqual([]);
  });

  it('a statement over its limit fails', async () => {
    const failed = own((runner) => runner.query('SELECT pg_sleep(60)'), {
      statementTimeout: 50,
      lockTimeout: 50,
    });
    await expect(failed).rejects.toMatchObject({ code: '57014' });
  });

  it('a lock over its limit fails', async () => {
    const locked = signal();
    const release = signal();
    const holder = own(async (runner) => {
      await runner.query('LOCK TABLE notes');
      locked.give();
      await release.promise;
    });
    await locked.promise;
    const waiting = own((runner) => runner.query('LOCK TABLE notes'), {
      statementTimeout: 10_000,
      lockTimeout: 50,
    });
    await expect(waiting).rejects.toMatchObject({ code: '55P03' });
    release.give();
    await holder;
  });

  it('a COMMIT that is answered with ROLLBACK is a failure', async () => {
    const failed = own(async (runner) => {
      await runner.manager.insert(Note, { text: 'lost' });
      await runner.query('SELECT 1/0').catch(() => undefined);
    });
    await expect(failed).rejects.toMatchObject({ name: 'TransactionAbortedError', reason: 'failed' });
    expect(await bench.texts()).toEqual([]);
  });

  it('one that was ended inside is a failure', async () => {
    const failed = own((runner) => runner.query('ROLLBACK'));
    await expect(failed).rejects.toMatchObject({ name: 'TransactionAbortedError', reason: 'ended' });
  });

  it("an error of the rollback does not hide the work's, and the connection is not used again", async () => {
    let pid = 0;
    const failed = own(async (runner) => {
      const [row] = (await runner.query('SELECT pg_backend_pid() AS pid')) as { pid: number }[];
      pid = row!.pid;
      await bench.database.query('SELECT pg_terminate_backend($1)', [pid]);
      await waitFor('the client to notice', () => runner.isReleased);
      throw new Rollback('the first error');
    });
    await expect(failed).rejects.toThrow('the first error');
    const pids = await Promise.all(
      [1, 2].map(() => bench.dataSource.query('SELECT pg_backend_pid() AS pid')),
    );
    expect(pids.flat()).not.toContainEqual({ pid });
  });

  it('refuses a database that it does not know', async () => {
    const dataSource = { options: { type: 'oracle' } } as never;
    await expect(ownTransaction(dataSource, limits, async () => undefined)).rejects.toThrow(
      UnsupportedDatabaseError,
    );
  });

  it('one that gets no answer is given up, and leaves no lock and no connection behind', async () => {
    const short = { statementTimeout: 200, lockTimeout: 200 };
    const hangs = own(async (runner) => {
      await runner.query('SELECT pg_advisory_xact_lock(4711)');
      await new Promise(() => undefined);
    }, short);
    await expect(hangs).rejects.toThrow(DatabaseUnansweredError);
    // The pool has two: both can be had, and so can the lock.
    const lock = () => own((runner) => runner.query('SELECT pg_advisory_xact_lock(4711), pg_sleep(0.05)'));
    await Promise.all([lock(), lock()]);
  });

  it('a read that waits for a lock is given up on the server too, and its connection can be used again', async () => {
    await bench.database.query('CREATE TABLE rebuilt (id int)');
    const rebuild = signal();
    const locked = signal();
    const rebuilding = bench.dataSource.transaction(async (manager) => {
      await manager.query('LOCK TABLE rebuilt IN ACCESS EXCLUSIVE MODE');
      locked.give();
      await rebuild.promise;
    });
    await locked.promise;
    const other = await new DataSource({
      type: 'postgres',
      url: bench.database.url,
      poolSize: 2,
    }).initialize();
    const read = () =>
      ownRead(other, { statementTimeout: 100 }, (runner) => runner.query('SELECT * FROM rebuilt'));
    for (let tries = 0; tries < 5; tries++) await expect(read()).rejects.toThrow(DatabaseUnansweredError);
    await waitFor('nobody to wait for the lock', async () => {
      const waiting = await bench.database.query(
        "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
      );
      return waiting.length === 0;
    });
    rebuild.give();
    await rebuilding;
    expect(await read()).toEqual([]);
    await other.destroy();
  });

  it('a process that is paused in the middle of one keeps nobody waiting: the server ends it', async () => {
    const paused = own(
      async (runner) => {
        await runner.query('SELECT pg_advisory_xact_lock(4712)');
        await waitFor('the server to end the session', async () => {
          const [row] = await bench.dataSource.query<{ count: string }[]>(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 4712",
          );
          return row?.count === '0';
        });
        await runner.query('SELECT 1');
      },
      { statementTimeout: 1_000, lockTimeout: 1_000 },
    );
    await expect(paused).rejects.toThrow();
  });

  it('an error of the begin is the one that comes out', async () => {
    const failed = ownTransaction(
      bench.dataSource,
      { ...limits, isolationLevel: 'NONSENSE' as never },
      async () => undefined,
    );
    await expect(failed).rejects.toThrow(/syntax error/);
    await expect(failed).rejects.not.toBeInstanceOf(QueryFailedError);
  });
});
