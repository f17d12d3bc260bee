import { DataSource } from 'typeorm';
import { DataSourceNotBridgedError } from '../../../lib/transaction/data-source-not-bridged.error';
import { ForeignManagerError } from '../../../lib/transaction/foreign-manager.error';
import { OwnTransactionSource } from '../../../lib/transaction/own-transaction-source';
import type { TransactionSource } from '../../../lib/transaction/transaction-source';
import { Transactions } from '../../../lib/transaction/transactions';
import { createBench, Note, Rollback, type Bench } from './fixtures';

describe('Transactions', () => {
  let bench: Bench;
  let transactions: Transactions;
  const notes = () => bench.dataSource.getRepository(Note);

  beforeAll(async () => {
    bench = await createBench();
    transactions = new Transactions(bench.dataSource);
  });
  afterAll(() => bench?.close());
  beforeEach(() => bench.clear());

  it('active() is the manager of the transaction, and undefined outside', async () => {
    expect(transactions.active()).toBeUndefined();
    await bench.dataSource.transaction(async (manager) => expect(transactions.active()).toBe(manager));
    expect(transactions.active()).toBeUndefined();
  });

  it('run() opens one with the level asked for and gives back what the work gave', async () => {
    const level = await transactions.run(
      async (manager) =>
        (await manager.query<{ l: string }[]>(`SELECT current_setting('transaction_isolation') l`))[0]!.l,
      { isolationLevel: 'SERIALIZABLE' },
    );
    expect(level).toBe('serializable');
  });

  it('run() rolls back when the work throws', async () => {
    const failed = transactions.run(async () => {
      await notes().save({ text: 'x' });
      throw new Rollback();
    });
    await expect(failed).rejects.toThrow(Rollback);
    expect(await bench.texts()).toEqual([]);
  });

  it('run() refuses a data source that nothing would join', async () => {
    const dataSource = new DataSource({ type: 'postgres' });
    await expect(transactions.run(async () => undefined, { dataSource })).rejects.toThrow(
      DataSourceNotBridgedError,
    );
  });

  describe('resolve()', () => {
    it('finds the active transaction, and nothing outside of one', async () => {
      expect(transactions.resolve()).toBeUndefined();
      expect(transactions.resolve({ manager: bench.dataSource.manager })).toBeUndefined();
      await transactions.run(async (manager) => {
        expect(transactions.resolve()).toBe(manager);
        expect(transactions.resolve({ manager: bench.dataSource.manager })).toBe(manager);
        expect(transactions.resolve({ manager })).toBe(manager);
      });
    });

    it('takes the manager of a transaction driven by hand, also inside another one', async () => {
      const runner = bench.dataSource.createQueryRunner();
      const { manager } = runner;
      expect(transactions.resolve({ manager })).toBeUndefined();
      await runner.startTransaction();
      expect(transactions.resolve({ manager })).toBe(manager);
      await transactions.run(async () => expect(transactions.resolve({ manager })).toBe(manager));
      await runner.commitTransaction();
      await transactions.run(async () => expect(transactions.resolve({ manager })).toBeUndefined());
      await runner.release();
    });

    it('refuses a manager of another data source', () => {
      const { manager } = new DataSource({ type: 'postgres' });
      expect(() => transactions.resolve({ manager })).toThrow(ForeignManagerError);
    });
  });

  describe('with a further source in the chain', () => {
    const callbacks: (() => void | Promise<void>)[] = [];
    const foreign = { active: undefined as ReturnType<TransactionSource['active']> };
    const source: TransactionSource = {
      name: 'somebody-elses-transactions',
      active: () => foreign.active,
      afterCommit: (_dataSource, fn) => void callbacks.push(fn),
    };
    const chained = () => new Transactions(bench.dataSource, [new OwnTransactionSource(), source]);
    /** As another library does it: a transaction on a runner of its own, which nothing of ours has seen. */
    const inForeign = async (work: () => Promise<void>) => {
      const runner = bench.dataSource.createQueryRunner();
      await runner.startTransaction();
      foreign.active = runner.manager;
      try {
        await work();
        await runner.commitTransaction();
      } catch (error) {
        await runner.rollbackTransaction();
        throw error;
      } finally {
        foreign.active = undefined;
        await runner.release();
      }
    };

    it('its transaction is active, and run() is a savepoint in it', async () => {
      await inForeign(async () => {
        const manager = chained().active()!;
        expect(manager).toBe(foreign.active);
        await manager.insert(Note, { text: 'outer' });
        const failed = chained().run(async (inner) => {
          await inner.insert(Note, { text: 'inner' });
          await notes().insert({ text: 'inner, joined' });
          throw new Rollback();
        });
        await expect(failed).rejects.toThrow(Rollback);
        await chained().run(() => notes().insert({ text: 'kept' }));
        await expect(
          chained().run(async () => undefined, { isolationLevel: 'SERIALIZABLE' }),
        ).rejects.toThrow('cannot change it');
      }).catch((error: unknown) => expect(error).toBeUndefined());
      expect(await bench.texts()).toEqual(['outer', 'kept']);
    });

    it('our own context is asked first', async () => {
      await inForeign(async () => {
        await bench.dataSource.transaction(async (manager) => expect(chained().active()).toBe(manager));
      });
    });

    it('after-commit work is handed to it', async () => {
      const fn = () => undefined;
      await inForeign(async () => chained().afterCommit(fn));
      expect(callbacks).toEqual([fn]);
    });

    it('of one that does not tell of the commit, it is seen on the runner', async () => {
      const mute: TransactionSource = { name: 'mute', active: () => foreign.active };
      const ran: string[] = [];
      await inForeign(async () => {
        new Transactions(bench.dataSource, [mute]).afterCommit(() => void ran.push('after the commit'));
        await foreign.active!.insert(Note, { text: 'seen' });
        expect(ran).toEqual([]);
      });
      expect(ran).toEqual(['after the commit']);
    });

    it('one that does not tell of the commit, and hides its runner, is refused by name', () => {
      const hidden: TransactionSource = { name: 'mute', active: () => bench.dataSource.manager };
      expect(() => new Transactions(bench.dataSource, [hidden]).afterCommit(() => undefined)).toThrow(
        /cannot be used in a transaction of mute/,
      );
    });
  });
});
