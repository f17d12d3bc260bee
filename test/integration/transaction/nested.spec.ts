import { IsolationLevelRefusedError } from '../../../lib/transaction/isolation-level-refused.error';
import { TransactionAbortedError } from '../../../lib/transaction/transaction-aborted.error';
import { Transactions } from '../../../lib/transaction/transactions';
import { createBench, Note, Rollback, signal, type Bench } from './fixtures';

describe('a nested transaction is a savepoint', () => {
  let bench: Bench;
  let transactions: Transactions;
  const save = (text: string) => bench.dataSource.getRepository(Note).save({ text });
  const nested = <T>(work: () => Promise<T>) => bench.dataSource.transaction(work);

  beforeAll(async () => {
    bench = await createBench();
    transactions = new Transactions(bench.dataSource);
  });
  afterAll(() => bench?.close());
  beforeEach(() => bench.clear());

  it.each<[string, (work: () => Promise<unknown>) => Promise<unknown>]>([
    ['dataSource.transaction()', (work) => bench.dataSource.transaction(work)],
    ['dataSource.manager.transaction()', (work) => bench.dataSource.manager.transaction(work)],
    ['transaction() of the manager in hand', (work) => transactions.active()!.transaction(work)],
    ['Transactions.run()', (work) => transactions.run(work)],
  ])('%s: its rollback leaves the outer one alive and takes only its own rows', async (_name, open) => {
    await bench.dataSource.transaction(async () => {
      await save('before');
      const failed = open(async () => {
        await save('inner');
        throw new Rollback();
      });
      await expect(failed).rejects.toThrow(Rollback);
      await save('after');
    });
    expect(await bench.texts()).toEqual(['before', 'after']);
  });

  it('a failed statement inside it does not spoil the outer one', async () => {
    await bench.dataSource.transaction(async () => {
      await save('before');
      await expect(nested(() => bench.dataSource.query('SELECT 1/0'))).rejects.toThrow('division by zero');
      await save('after');
    });
    expect(await bench.texts()).toEqual(['before', 'after']);
  });

  it('is undone with the outer one', async () => {
    const failed = bench.dataSource.transaction(async () => {
      await nested(() => save('inner'));
      throw new Rollback();
    });
    await expect(failed).rejects.toThrow(Rollback);
    expect(await bench.texts()).toEqual([]);
  });

  it('two in parallel keep the right rows: the failed one loses its own, the other keeps its own', async () => {
    // Without waiting for each other: A inserts, B sets its savepoint and inserts, A rolls back over B's rows.
    const inB = signal();
    const results: string[] = [];
    await bench.dataSource.transaction(async () => {
      const a = nested(async () => {
        await save('A');
        await Promise.race([inB.promise, eventLoopTurns(20)]);
        throw new Rollback();
      }).catch(() => results.push('A rolled back'));
      const b = nested(async () => {
        inB.give();
        await save('B');
        await eventLoopTurns(20);
      }).then(() => results.push('B kept'));
      await Promise.all([a, b]);
    });
    expect(results).toEqual(['A rolled back', 'B kept']);
    expect(await bench.texts()).toEqual(['B']);
  });

  it('ten in parallel, each with two in parallel inside, neither block each other nor mix', async () => {
    const expected: string[] = [];
    await bench.dataSource.transaction(async () => {
      await Promise.all(
        Array.from({ length: 10 }, async (_, i) => {
          const outcome = nested(async () => {
            await save(`${i}`);
            await Promise.allSettled(
              ['a', 'b'].map((letter) =>
                nested(async () => {
                  await save(`${i}${letter}`);
                  if (letter === 'b') throw new Rollback();
                }),
              ),
            );
            if (i % 2) throw new Rollback();
          });
          if (i % 2 === 0) expected.push(`${i}`, `${i}a`);
          await outcome.catch(() => undefined);
        }),
      );
    });
    expect(await bench.texts()).toEqual(expected);
  });

  it('five deep, each with statements before and after, works', async () => {
    const deep = async (level: number): Promise<void> => {
      await save(`down ${level}`);
      if (level < 5) await nested(() => deep(level + 1));
      await save(`up ${level}`);
    };
    await bench.dataSource.transaction(() => deep(1));
    expect((await bench.texts()).length).toBe(10);
  });

  it('a statement of the outer one in parallel with a nested one that succeeds is kept', async () => {
    await bench.dataSource.transaction(async () => {
      const entered = signal();
      const leave = signal();
      const inner = nested(async () => {
        await save('inner');
        entered.give();
        await leave.promise;
      });
      await entered.promise;
      await save('outer, meanwhile'); // does not wait for the nested one: that could be for ever
      leave.give();
      await inner;
    });
    expect(await bench.texts()).toEqual(['inner', 'outer, meanwhile']);
  });

  it('a statement of the outer one that a savepoint took back fails the commit instead of being lost', async () => {
    const failed = bench.dataSource.transaction(async () => {
      const entered = signal();
      const leave = signal();
      const inner = nested(async () => {
        entered.give();
        await leave.promise;
        throw new Rollback();
      });
      await entered.promise;
      await save('outer, meanwhile');
      leave.give();
      await expect(inner).rejects.toThrow(Rollback);
    });
    await expect(failed).rejects.toThrow(TransactionAbortedError);
    await expect(failed).rejects.toMatchObject({ reason: 'undone' });
    expect(await bench.texts()).toEqual([]);
  });

  it('in a failed outer transaction, it does not end the outer one: nothing after it is committed by itself', async () => {
    const failed = bench.dataSource.transaction(async () => {
      await bench.dataSource.query('SELECT 1/0').catch(() => undefined);
      await nested(() => save('inner')).catch(() => undefined); // SAVEPOINT is refused by the server
      await save('autocommitted').catch(() => undefined);
    });
    await expect(failed).rejects.toThrow(TransactionAbortedError);
    expect(await bench.texts()).toEqual([]);
  });

  it('refuses an isolation level, whoever asks, and the outer one goes on', async () => {
    await bench.dataSource.transaction(async () => {
      const work = () => save('never');
      await expect(bench.dataSource.transaction('SERIALIZABLE', work)).rejects.toThrow(
        IsolationLevelRefusedError,
      );
      await expect(transactions.run(work, { isolationLevel: 'SERIALIZABLE' })).rejects.toThrow(
        IsolationLevelRefusedError,
      );
      await save('kept');
    });
    expect(await bench.texts()).toEqual(['kept']);
  });

  it('accepts the level that the outer transaction was opened with', async () => {
    await bench.dataSource.transaction('SERIALIZABLE', () =>
      transactions.run(() => save('kept'), { isolationLevel: 'SERIALIZABLE' }),
    );
    expect(await bench.texts()).toEqual(['kept']);
  });
});

/** Gives everything that is ready the chance to run: rounds of the event loop with an answer of the database in each. */
async function eventLoopTurns(rounds: number): Promise<void> {
  for (let i = 0; i < rounds; i++) await new Promise((resolve) => setImmediate(resolve));
}
