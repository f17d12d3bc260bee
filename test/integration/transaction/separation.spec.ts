import { Transactions } from '../../../lib/transaction/transactions';
import { createBench, Note, Rollback, type Bench } from './fixtures';

const save = (bench: Bench, text: string) => bench.dataSource.getRepository(Note).save({ text });

describe('transactions do not mix', () => {
  let a: Bench;
  let b: Bench;

  beforeAll(async () => {
    [a, b] = await Promise.all([createBench(), createBench()]);
  });
  afterAll(() => Promise.all([a?.close(), b?.close()]));
  beforeEach(() => Promise.all([a.clear(), b.clear()]));

  it('ten in parallel: each keeps or loses exactly its own rows', async () => {
    for (let round = 0; round < 5; round++) {
      await a.clear();
      await Promise.allSettled(
        Array.from({ length: 10 }, (_, i) =>
          a.dataSource.transaction(async () => {
            const seen = new Set<number>();
            for (let step = 0; step < 3; step++) {
              await save(a, `${i}.${step}`);
              const [row] = await a.dataSource.query<{ pid: number }[]>('SELECT pg_backend_pid() AS pid');
              seen.add(row!.pid);
            }
            expect(seen.size).toBe(1);
            if (i % 2) throw new Rollback();
          }),
        ),
      );
      const expected = [0, 2, 4, 6, 8].flatMap((i) => [`${i}.0`, `${i}.1`, `${i}.2`]);
      expect((await a.texts()).sort()).toEqual(expected);
    }
  });

  it('C06: two data sources, one inside the other: each rolls back its own only', async () => {
    await a.dataSource.transaction(async () => {
      await save(a, 'a');
      const failed = b.dataSource.transaction(async () => {
        await save(b, 'b');
        await save(a, 'a, inside b');
        throw new Rollback();
      });
      await expect(failed).rejects.toThrow(Rollback);
    });
    expect(await a.texts()).toEqual(['a', 'a, inside b']);
    expect(await b.texts()).toEqual([]);
  });

  it('C06: a transaction of one data source is none for the other', async () => {
    const transactions = new Transactions(b.dataSource);
    const failed = a.dataSource.transaction(async () => {
      expect(transactions.active()).toBeUndefined();
      expect(transactions.active(a.dataSource)).toBeDefined();
      expect(() => transactions.afterCommit(() => undefined)).toThrow('needs an active transaction');
      await save(b, 'b');
      throw new Rollback();
    });
    await expect(failed).rejects.toThrow(Rollback);
    expect(await b.texts()).toEqual(['b']);
  });

  it('outside() survives the rollback, on another connection', async () => {
    const transactions = new Transactions(a.dataSource);
    const failed = transactions.run(async () => {
      await save(a, 'lost');
      await transactions.outside(() => save(a, 'audit row'));
      await transactions.outside(() => transactions.run(() => save(a, 'audit row in a transaction')));
      throw new Rollback();
    });
    await expect(failed).rejects.toThrow(Rollback);
    expect(await a.texts()).toEqual(['audit row', 'audit row in a transaction']);
  });

  it("an independent runner's transaction inside another one is its own, and so is what runs after its commit", async () => {
    const transactions = new Transactions(a.dataSource);
    const failed = a.dataSource.transaction(async () => {
      const runner = a.dataSource.createQueryRunner();
      try {
        await runner.manager.transaction(async () => {
          await save(a, 'independent');
          transactions.afterCommit(() => save(a, 'after its commit').then(() => undefined));
        });
      } finally {
        await runner.release();
      }
      await save(a, 'lost');
      throw new Rollback();
    });
    await expect(failed).rejects.toThrow(Rollback);
    expect(await a.texts()).toEqual(['independent', 'after its commit']);
  });
});
