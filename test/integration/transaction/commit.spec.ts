import { Logger } from '@nestjs/common';
import { EventSubscriber, type EntitySubscriberInterface, type TransactionCommitEvent } from 'typeorm';
import { TransactionAbortedError } from '../../../lib/transaction/transaction-aborted.error';
import { Transactions } from '../../../lib/transaction/transactions';
import { createBench, expectNothingOpen, Note, Rollback, type Bench } from './fixtures';

type Hook = ((event: TransactionCommitEvent) => unknown) | undefined;

@EventSubscriber()
class TransactionSubscriber implements EntitySubscriberInterface {
  static hooks: Partial<Record<'beforeStart' | 'beforeCommit' | 'afterCommit' | 'beforeRollback', Hook>> = {};
  beforeTransactionStart = async (event: TransactionCommitEvent) =>
    TransactionSubscriber.hooks.beforeStart?.(event);
  beforeTransactionCommit = async (event: TransactionCommitEvent) =>
    TransactionSubscriber.hooks.beforeCommit?.(event);
  afterTransactionCommit = async (event: TransactionCommitEvent) =>
    TransactionSubscriber.hooks.afterCommit?.(event);
  beforeTransactionRollback = async (event: TransactionCommitEvent) =>
    TransactionSubscriber.hooks.beforeRollback?.(event);
}

describe('a commit is real or it is a failure', () => {
  let bench: Bench;
  let transactions: Transactions;
  const save = (text: string) => bench.dataSource.getRepository(Note).save({ text });

  beforeAll(async () => {
    bench = await createBench({ subscribers: [TransactionSubscriber], poolSize: 2 });
    transactions = new Transactions(bench.dataSource);
  });
  afterAll(() => bench?.close());
  beforeEach(async () => {
    TransactionSubscriber.hooks = {};
    await bench.clear();
    jest.spyOn(Logger.prototype, 'error').mockImplementation(() => undefined);
    jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => undefined);
  });
  afterEach(async () => {
    jest.restoreAllMocks();
    TransactionSubscriber.hooks = {};
    await expectNothingOpen(bench);
  });

  it("the server's silent rollback of a failed transaction is an error", async () => {
    const failed = bench.dataSource.transaction(async () => {
      await save('lost');
      await bench.dataSource.query('SELECT 1/0').catch(() => undefined);
      return 'ok';
    });
    await expect(failed).rejects.toMatchObject({ name: 'TransactionAbortedError', reason: 'failed' });
    expect(await bench.texts()).toEqual([]);
  });

  it('also when the failed statement is the very last one', async () => {
    // The error arrives before the status that follows it.
    for (let i = 0; i < 50; i++) {
      const failed = bench.dataSource.transaction(() =>
        bench.dataSource.query('SELECT 1/0').catch(() => 'swallowed'),
      );
      await expect(failed).rejects.toBeInstanceOf(TransactionAbortedError);
    }
  });

  it('a raw ROLLBACK inside is an error, and nothing after it is committed by itself', async () => {
    const failed = bench.dataSource.transaction(async () => {
      await save('lost');
      await bench.dataSource.query('ROLLBACK');
      await expect(save('autocommitted')).rejects.toBeInstanceOf(TransactionAbortedError);
      return 'ok';
    });
    await expect(failed).rejects.toMatchObject({ name: 'TransactionAbortedError', reason: 'ended' });
    expect(await bench.texts()).toEqual([]);
  });

  it.each(['commitTransaction', 'rollbackTransaction'] as const)(
    'a %s() by hand on its runner is an error',
    async (method) => {
      const failed = bench.dataSource.transaction(async (manager) => {
        await manager.queryRunner?.[method]();
        return 'ok';
      });
      await expect(failed).rejects.toMatchObject({ name: 'TransactionAbortedError', reason: 'ended' });
    },
  );

  it('a failure that is swallowed in beforeTransactionCommit is seen as well', async () => {
    TransactionSubscriber.hooks.beforeCommit = (event) =>
      event.manager.query('SELECT 1/0').catch(() => undefined);
    await expect(bench.dataSource.transaction(() => save('lost'))).rejects.toMatchObject({
      reason: 'failed',
    });
    expect(await bench.texts()).toEqual([]);
  });

  it('a deferred constraint that fails at COMMIT is the error that the caller gets', async () => {
    await bench.database.query(
      'CREATE TABLE IF NOT EXISTS deferred (n int UNIQUE DEFERRABLE INITIALLY DEFERRED); TRUNCATE deferred',
    );
    const after = jest.fn();
    const failed = bench.dataSource.transaction(async () => {
      transactions.afterCommit(after);
      await bench.dataSource.query('INSERT INTO deferred VALUES (1), (1)');
    });
    await expect(failed).rejects.toMatchObject({ code: '23505' });
    expect(after).not.toHaveBeenCalled();
  });

  it('beforeTransactionCommit belongs to the transaction: what its repositories write is committed', async () => {
    TransactionSubscriber.hooks.beforeCommit = () => save('by the subscriber');
    await bench.dataSource.transaction(() => save('x'));
    expect(await bench.texts()).toEqual(['x', 'by the subscriber']);
  });

  it('afterTransactionCommit is outside: what its repositories write is committed by itself', async () => {
    TransactionSubscriber.hooks.afterCommit = async () => {
      TransactionSubscriber.hooks.afterCommit = undefined;
      expect(transactions.active()).toBeUndefined();
      await save('by the subscriber');
    };
    await bench.dataSource.transaction(() => save('x'));
    expect(await bench.texts()).toEqual(['x', 'by the subscriber']);
  });

  it('a subscriber that throws in afterTransactionCommit does not make the commit look failed', async () => {
    TransactionSubscriber.hooks.afterCommit = () => {
      throw new Error('subscriber');
    };
    const after = jest.fn();
    const result = await bench.dataSource.transaction(async () => {
      transactions.afterCommit(after);
      await bench.dataSource.transaction(() => save('nested'));
      await save('x');
      return 'ok';
    });
    expect(result).toBe('ok');
    expect(after).toHaveBeenCalledTimes(1);
    expect(await bench.texts()).toEqual(['nested', 'x']);
  });

  it.each(['beforeStart', 'beforeCommit'] as const)(
    'a subscriber that throws in %s fails the transaction',
    async (hook) => {
      TransactionSubscriber.hooks[hook] = () => {
        throw new Error('subscriber');
      };
      await expect(bench.dataSource.transaction(() => save('x'))).rejects.toThrow('subscriber');
      TransactionSubscriber.hooks = {};
      expect(await bench.texts()).toEqual([]);
    },
  );

  it('a subscriber that throws before a nested start fails only the nested one', async () => {
    await bench.dataSource.transaction(async () => {
      TransactionSubscriber.hooks.beforeStart = () => {
        throw new Error('subscriber');
      };
      await expect(bench.dataSource.transaction(() => save('nested'))).rejects.toThrow('subscriber');
      TransactionSubscriber.hooks = {};
      await bench.dataSource.getRepository(Note).insert({ text: 'x' });
    });
    expect(await bench.texts()).toEqual(['x']);
  });

  it('a subscriber that throws before the ROLLBACK hides neither the error nor an open transaction', async () => {
    TransactionSubscriber.hooks.beforeRollback = () => {
      throw new Error('subscriber');
    };
    for (let i = 0; i < 5; i++) {
      const failed = bench.dataSource.transaction(async () => {
        await save('x');
        throw new Rollback();
      });
      await expect(failed).rejects.toThrow(Rollback);
    }
    await expectNothingOpen(bench);
    expect(await bench.texts()).toEqual([]);
  });

  it('a savepoint that could not be rolled back fails the outer commit', async () => {
    const failed = bench.dataSource.transaction(async () => {
      TransactionSubscriber.hooks.beforeRollback = () => {
        throw new Error('subscriber');
      };
      const nested = bench.dataSource.transaction(async () => {
        await save('nested');
        throw new Rollback();
      });
      await expect(nested).rejects.toThrow(Rollback);
      TransactionSubscriber.hooks = {};
    });
    await expect(failed).rejects.toMatchObject({ reason: 'kept' });
    expect(await bench.texts()).toEqual([]);
  });
});
