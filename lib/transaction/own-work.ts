import { Logger } from '@nestjs/common';
import type { DataSource, QueryRunner } from 'typeorm';
import { postgresOwnTransactions } from '../persistence/postgres/own-transactions';
import { within } from '../timing/within';
import { ConnectionLostError, explainLoss } from './connection-lost.error';
import type { OwnTransactionControl, OwnTransactionStart } from './own-transaction-control';
import { bridgeSources } from './bridge';
import { outsideSources } from './outside-sources';
import { runnerState } from './runner-state';
import { runOutsideScopes } from './transaction-context';
import { DatabaseUnansweredError } from './unanswered.error';
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
  const work = async () => {
    const runner = dataSource.createQueryRunner();
    try {
      return await fn(runner);
    } finally {
      await runner.release();
    }
  };
  return runOutsideScopes(() => outsideSources(bridgeSources(dataSource), work));
}

/** How much longer than the server's own limit to wait for an answer. A server that is cut off ends nothing. */
const PATIENCE = 3;

/**
 * Runs `fn` in a short transaction of the module's own, outside of any transaction of the application. TypeORM's
 * subscribers to transactions do not see it. It is rolled back when `fn` throws; an error of the rollback is logged and does
 * not hide the first one. A connection whose transaction could not be ended is closed.
 *
 * @throws {TransactionAbortedError} when the COMMIT was answered with a rollback
 * @throws {DatabaseUnansweredError} after three times the statement timeout, the wait for a connection included
 */
export async function ownTransaction<T>(
  dataSource: DataSource,
  options: OwnTransactionOptions,
  fn: (runner: QueryRunner) => Promise<T>,
): Promise<T> {
  const control = controlOf(dataSource);
  return patiently(dataSource, options, async (runner, attempt) => {
    await connected(runner, attempt);
    return inOwnTransaction(runner, control, options, fn);
  });
}

/**
 * As {@link ownTransaction}, for one statement that only reads: without BEGIN and COMMIT, which would be two of the three
 * statements of an idle poll. The server knows of no limit then; the statement is cancelled when no answer comes, and the connection closed where that
 * does not help.
 *
 * @throws {DatabaseUnansweredError} after three times the statement timeout, the wait for a connection included
 */
export function ownRead<T>(
  dataSource: DataSource,
  { statementTimeout }: Pick<OwnTransactionOptions, 'statementTimeout'>,
  fn: (runner: QueryRunner) => Promise<T>,
): Promise<T> {
  const control = controlOf(dataSource);
  return patiently(dataSource, { statementTimeout, isUnlimited: true }, async (runner, attempt) => {
    await connected(runner, attempt);
    let lost: ConnectionLostError | undefined;
    const stopWatching = await control.watch(runner, (cause) => (lost ??= new ConnectionLostError(cause)));
    try {
      return await fn(runner);
    } catch (error) {
      throw explainLoss(error, lost);
    } finally {
      stopWatching();
    }
  });
}

/** Milliseconds for cancelling what is given up. */
const LAST_WORDS = 300;

interface Patience {
  readonly statementTimeout: number;
  /** Whether the server does not know of the limit. */
  readonly isUnlimited?: boolean;
}

async function patiently<T>(
  dataSource: DataSource,
  { statementTimeout, isUnlimited = false }: Patience,
  fn: (runner: QueryRunner, attempt: Attempt) => Promise<T>,
): Promise<T> {
  const control = controlOf(dataSource);
  const patience = PATIENCE * statementTimeout;
  const attempt: Attempt = { connected: false, abandoned: false };
  const work = runOutside(dataSource, (runner) => {
    attempt.runner = runner;
    return fn(runner, attempt).finally(() => attempt.cancelling);
  });
  if (await within(patience, work)) return work;
  const over = work.then(
    () => undefined,
    () => undefined,
  );
  const error = new DatabaseUnansweredError(patience);
  attempt.abandoned = true;
  // One that is still waiting for its connection ends by itself when it gets it.
  if (attempt.connected && attempt.runner) {
    const { runner } = attempt;
    // A server does not notice that the connection is closed while the statement waits for a lock: it would go on waiting, and
    // each new try would leave one more connection there.
    if (isUnlimited) await (attempt.cancelling = cancelOnServer(dataSource, runner));
    if (!isUnlimited || !(await within(LAST_WORDS, over))) await control.discard(runner, error);
  }
  throw error;
}

/** Best effort: the connection for it may not be had either. */
async function cancelOnServer(dataSource: DataSource, victim: QueryRunner): Promise<void> {
  const limits = { statementTimeout: LAST_WORDS, lockTimeout: LAST_WORDS };
  const cancel = ownTransaction(dataSource, limits, async (other) => {
    // It may be somebody else's by now.
    if (!victim.isReleased) await controlOf(dataSource).cancel(victim, other);
  });
  await cancel.catch((error: unknown) => {
    logger.debug(`A statement without an answer could not be cancelled: ${String(error)}`);
  });
}

/** How far one transaction has come, for whoever loses patience with it. */
interface Attempt {
  runner?: QueryRunner;
  connected: boolean;
  abandoned: boolean;
  /** Until it is over the connection must not become somebody else's, whose statement would be cancelled instead. */
  cancelling?: Promise<void>;
}

/** Without a connection there is nothing to roll back either. */
async function connected(runner: QueryRunner, attempt: Attempt): Promise<void> {
  await runner.connect();
  attempt.connected = true;
  if (attempt.abandoned) throw new Error('The connection came too late; nobody waits for it any more.');
}

async function inOwnTransaction<T>(
  runner: QueryRunner,
  control: OwnTransactionControl,
  options: OwnTransactionOptions,
  fn: (runner: QueryRunner) => Promise<T>,
): Promise<T> {
  const state = runnerState(runner);
  // TypeORM must know that a transaction is open, or the manager of the runner would open one for each save().
  const mark = (isOpen: boolean) =>
    Object.assign(state, { isTransactionActive: isOpen, transactionDepth: isOpen ? 1 : 0 });
  let lost: ConnectionLostError | undefined;
  const stopWatching = await control.watch(runner, (cause) => (lost ??= new ConnectionLostError(cause)));
  try {
    await control.begin(runner, { isolationLevel: 'READ COMMITTED', ...options });
    mark(true);
    const result = await fn(runner);
    await control.commit(runner);
    return result;
  } catch (error) {
    await rollBack(runner, control);
    throw explainLoss(error, lost);
  } finally {
    stopWatching();
    mark(false);
  }
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
