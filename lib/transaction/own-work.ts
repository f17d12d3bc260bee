import { Logger } from '@nestjs/common';
import type { DataSource, QueryRunner } from 'typeorm';
import { postgresOwnTransactions } from '../persistence/postgres/own-transactions';
import type { OwnTransactionControl, OwnTransactionStart } from './own-transaction-control';
import { runnerState } from './runner-state';
import { runOutsideScopes } from './transaction-context';
import { UnsupportedDatabaseError } from '../persistence/unsupported-database.error';

const logger = new Logger('Transactions');

/** Limits are required, because the module's own work must never wait for ever. Milliseconds. */
export interface OwnTransactionOptions extends Omit<OwnTransactionStart, 'isolationLevel'> {
  /** Default `READ COMMITTED`, whatever the data source's or the server's default is. */
  readonly isolationLevel?: OwnTransactionStart['isolationLevel'];
}

/**
 * Runs `fn` with a query runner of its own, outside of any transaction of the application. The runner is always released.
 */
export function runOutside<T>(dataSource: DataSource, fn: (runner: QueryRunner) => Promise<T>): Promise<T> {
  return runOutsideScopes(async () => {
    const runner = dataSource.createQueryRunner();
    try {
      return await fn(runner);
    } finally {
      await runner.release();
    }
  });
}

/**
 * Runs `fn` in a short transaction of the module's own, outside of any transaction of the application. TypeORM's
 * subscribers to transactions do not see it. It is rolled back when `fn` throws; an error of the rollback is logged and does
 * not hide the first one. A connection whose transaction could not be ended is closed.
 *
 * @throws {TransactionAbortedError} when the COMMIT was answered with a rollback
 */
export function ownTransaction<T>(
  dataSource: DataSource,
  options: OwnTransactionOptions,
  fn: (runner: QueryRunner) => Promise<T>,
): Promise<T> {
  const control = controlOf(dataSource);
  return runOutside(dataSource, async (runner) => {
    const state = runnerState(runner);
    // TypeORM must know that a transaction is open, or the manager of the runner would open one for each save().
    const mark = (isOpen: boolean) =>
      Object.assign(state, { isTransactionActive: isOpen, transactionDepth: isOpen ? 1 : 0 });
    try {
      await control.begin(runner, { isolationLevel: 'READ COMMITTED', ...options });
      mark(true);
      const result = await fn(runner);
      await control.commit(runner);
      return result;
    } catch (error) {
      await rollBack(runner, control);
      throw error;
    } finally {
      mark(false);
    }
  });
}

async function rollBack(runner: QueryRunner, control: OwnTransactionControl): Promise<void> {
  if (runner.isReleased) return;
  try {
    await control.rollback(runner);
  } catch (error) {
    const reason = error instanceof Error ? error : new Error(String(error));
    logger.warn(`A rollback failed, the connection is closed: ${reason.message}`);
    await control.discard(runner, reason);
  }
}

function controlOf(dataSource: DataSource): OwnTransactionControl {
  if (dataSource.options.type === 'postgres') return postgresOwnTransactions;
  throw new UnsupportedDatabaseError(dataSource.options.type, ['postgres']);
}
