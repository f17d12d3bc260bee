import { Logger } from '@nestjs/common';
import type { DataSource, QueryRunner } from 'typeorm';
import { runAfterCommit, runAfterEnd } from './after-commit';
import { ConductedRunner } from './conducted-runner';
import { runnerState } from './runner-state';
import { runInScope } from './transaction-context';
import type { TransactionGuard } from './transaction-guard';
import {
  ClosingScope,
  TransactionScope,
  type IsolationLevel,
  type TransactionWork,
} from './transaction-scope';
import { abandonOpenChild } from './nested-transaction';

const logger = new Logger('Transactions');

/** Where an outer transaction runs. */
export interface OuterTransaction {
  readonly dataSource: DataSource;
  readonly guard: TransactionGuard;
  /** The caller's own runner. Without one a runner is made, and released at the end. */
  readonly runner?: QueryRunner;
  readonly isolationLevel?: IsolationLevel;
  /** See {@link TransactionScope.isSuspended}. */
  readonly isSuspended?: () => boolean;
}

/**
 * An outer transaction. It replaces TypeORM's own `EntityManager.transaction()`, which has the same shape, for what that
 * one leaves open:
 *
 * 1. BEGIN.
 * 2. Run the work inside the scope.
 * 3. End the scope: who is still inside is refused from here on. Savepoints left open by work that was not awaited are
 *    taken back, for half of a nested transaction must not be committed.
 * 4. COMMIT, if everything that was written is still there (TypeORM would take a silent ROLLBACK for a commit).
 * 5. Failure anywhere: ROLLBACK; whatever goes wrong there does not hide the first error.
 * 6. Give the connection back, or close it if a transaction is still open on it.
 * 7. Run what was registered for after the commit, and for after the end in either case. What subscribers to AfterTransactionCommit throw is only logged: the
 *    commit is real.
 */
export async function outerTransaction<T>(where: OuterTransaction, work: TransactionWork<T>): Promise<T> {
  const { dataSource, guard, isolationLevel } = where;
  const runner = where.runner ?? dataSource.createQueryRunner();
  const conductor = ConductedRunner.of(runner, guard);
  const scope = new TransactionScope(
    dataSource,
    runner,
    isolationLevel ?? dataSource.options.isolationLevel,
    undefined,
    0,
  );
  if (where.isSuspended) scope.isSuspended = where.isSuspended;
  let result: T;
  try {
    try {
      await runner.startTransaction(isolationLevel);
      const opening = conductor.open(scope);
      if (opening) await opening;
      result = await runInScope(scope, () => work(runner.manager));
      scope.state = 'ending';
      if (scope.openChild) await abandonOpenChild(scope, conductor);
      await commit(scope, conductor);
    } catch (error) {
      scope.state = 'rolled back';
      if (scope.openChild) await abandonOpenChild(scope, conductor);
      await rollback(scope, conductor);
      throw conductor.explain(error);
    }
  } finally {
    conductor.close(scope);
    const returning = giveBack(runner, guard, !where.runner);
    if (returning) await returning;
    if (scope.state === 'committed' && scope.afterCommit.length > 0) await runAfterCommit(scope);
    if (scope.afterEnd.length > 0) await runAfterEnd(scope);
  }
  return result;
}

async function commit(scope: TransactionScope, conductor: ConductedRunner): Promise<void> {
  const { runner } = scope;
  if (scope.doomed) throw scope.doomed;
  if (runner.isReleased) throw conductor.lost ?? scope.endedError('rolled back');
  // Asked here too for the sake of the error: of a transaction ended by hand TypeORM says that none was started.
  const answer = conductor.guard.assertAlive(runner);
  if (answer) await answer;
  const isDone = () => runnerState(runner).transactionDepth <= scope.depth;
  try {
    // Only subscribers run inside of it.
    if (scope.dataSource.subscribers.length === 0) await conductor.commit(scope);
    else await runInScope(new ClosingScope(scope, isDone), () => conductor.commit(scope));
  } catch (error) {
    if (!isDone()) throw error;
    logger.error('A subscriber to AfterTransactionCommit failed; the transaction is committed.', error);
  }
  scope.state = 'committed';
}

async function rollback(scope: TransactionScope, conductor: ConductedRunner): Promise<void> {
  const { runner } = scope;
  if (runner.isReleased || !runner.isTransactionActive) return;
  const closing = new ClosingScope(scope, () => !runner.isTransactionActive);
  try {
    await runInScope(closing, () => conductor.rollback(scope));
  } catch (error) {
    logger.warn('A rollback failed; the connection is closed if the transaction is still open.', error);
  }
  // TypeORM loses count when the transaction could not even be started properly.
  Object.assign(runnerState(runner), { isTransactionActive: false, transactionDepth: 0 });
}

/** A connection that still has a transaction open would hand it, with its locks, to the next who gets it. */
function giveBack(runner: QueryRunner, guard: TransactionGuard, isOurs: boolean): Promise<void> | undefined {
  if (runner.isReleased) return undefined;
  const release = (isIdle: boolean) => {
    if (!isIdle) return guard.discard?.(runner, new Error('A transaction is still open on this connection.'));
    return isOurs ? runner.release() : undefined;
  };
  const idle = !guard.discard || (guard.isIdle?.(runner) ?? true);
  return idle instanceof Promise ? idle.then(release) : release(idle);
}
