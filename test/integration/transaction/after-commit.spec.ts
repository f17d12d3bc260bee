import { Logger } from '@nestjs/common';
import { TransactionRequiredError } from '../../../lib/transaction/transaction-required.error';
import { Transactions } from '../../../lib/transaction/transactions';
import { createBench, Note, Rollback, type Bench } from './fixtures';

describe('after-commit work', () => {
  let bench: Bench;
  let transactions: Transactions;
  let ran: string[];
  const save = (text: string) => bench.dataSource.getRepository(Note).save({ text });
  const after = (name: string) => transactions.afterCommit(() => void ran.push(name));

  beforeAll(async () => {
    bench = await createBench({ poolSize: 1 });
    transactions = new Transactions(bench.dataSource);
  });
  afterAll(() => bench?.close());
  beforeEach(async () => {
    ran = [];
    await bench.clear();
  });
  afterEach(() => jest.restoreAllMocks());

  it('runs after the outer commit only, in the order of registration, when the rows are there for others', async () => {
    await transactions.run(async () => {
      after('first');
      await transactions.run(async () => after('nested'));
      expect(ran).toEqual([]);
      after('last');
      transactions.afterCommit(async () => void ran.push(...(await bench.texts())));
      await save('row');
    });
    expect(ran).toEqual(['first', 'nested', 'last', 'row']);
  });

  it('C03: a rolled-back savepoint drops its own; A and C run, B never', async () => {
    await bench.dataSource.transaction(async () => {
      await save('A');
      after('A');
      const inner = bench.dataSource.transaction(async () => {
        await save('B');
        after('B');
        await bench.dataSource.transaction(async () => after('B, released inside'));
        throw new Rollback();
      });
      await expect(inner).rejects.toThrow(Rollback);
      await save('C');
      after('C');
    });
    expect(ran).toEqual(['A', 'C']);
    expect(await bench.texts()).toEqual(['A', 'C']);
  });

  it('C03: an outer rollback after inner success runs nothing and keeps nothing', async () => {
    const failed = bench.dataSource.transaction(async () => {
      after('A');
      await bench.dataSource.transaction(async () => {
        await save('B');
        after('B');
      });
      throw new Rollback();
    });
    await expect(failed).rejects.toThrow(Rollback);
    expect(ran).toEqual([]);
    expect(await bench.texts()).toEqual([]);
  });

  it('C03: one that throws is logged; the commit stands and the others run', async () => {
    const error = jest.spyOn(Logger.prototype, 'error').mockImplementation(() => undefined);
    const result = await bench.dataSource.transaction(async () => {
      await save('A');
      transactions.afterCommit(() => {
        throw new Error('broker down');
      });
      transactions.afterCommit(() => Promise.reject(new Error('broker still down')));
      after('other');
      return 'ok';
    });
    expect(result).toBe('ok');
    expect(ran).toEqual(['other']);
    expect(error).toHaveBeenCalledTimes(2);
    expect(await bench.texts()).toEqual(['A']);
  });

  it('holds no connection while it runs, and is in no transaction', async () => {
    // The pool has a single connection: this would wait for ever.
    await transactions.run(async () => {
      transactions.afterCommit(async () => {
        expect(transactions.active()).toBeUndefined();
        await save('by the callback');
      });
    });
    expect(await bench.texts()).toEqual(['by the callback']);
  });

  it('is refused outside of a transaction', () => {
    expect(() => after('never')).toThrow(TransactionRequiredError);
  });

  describe('in a transaction driven by hand', () => {
    const byHand = async (end: 'commitTransaction' | 'rollbackTransaction', twice = false) => {
      const runner = bench.dataSource.createQueryRunner();
      try {
        for (let round = 0; round < (twice ? 2 : 1); round++) {
          await runner.startTransaction();
          await runner.manager.insert(Note, { text: 'x' });
          transactions.afterCommit(() => void ran.push('by hand'), { manager: runner.manager });
          await runner.manager.transaction(async () => {
            await save('joined');
            after('nested');
          });
          await runner[end]();
        }
      } finally {
        await runner.release();
      }
    };

    it('runs after its commit', async () => {
      await byHand('commitTransaction');
      expect(ran).toEqual(['by hand', 'nested']);
      expect(await bench.texts()).toEqual(['x', 'joined']);
    });

    it('does not run after its rollback', async () => {
      await byHand('rollbackTransaction');
      expect(ran).toEqual([]);
      expect(await bench.texts()).toEqual([]);
    });

    it('runs once for each of two transactions on one runner', async () => {
      await byHand('commitTransaction', true);
      expect(ran).toEqual(['by hand', 'nested', 'by hand', 'nested']);
    });

    it('is refused when no transaction is open on the runner', async () => {
      const runner = bench.dataSource.createQueryRunner();
      const { manager } = runner;
      expect(() => transactions.afterCommit(() => undefined, { manager })).toThrow(TransactionRequiredError);
      await runner.release();
    });

    it('its silent rollback is an error', async () => {
      const runner = bench.dataSource.createQueryRunner();
      await runner.startTransaction();
      transactions.afterCommit(() => void ran.push('never'), { manager: runner.manager });
      await runner.query('SELECT 1/0').catch(() => undefined);
      await expect(runner.commitTransaction()).rejects.toMatchObject({ reason: 'failed' });
      await runner.rollbackTransaction();
      await runner.release();
      expect(ran).toEqual([]);
    });
  });
});
