import { Logger } from '@nestjs/common';
import { ConductedRunner } from './conducted-runner';
import { IsolationLevelRefusedError } from './isolation-level-refused.error';
import { runnerState } from './runner-state';
import { TransactionAbortedError } from './transaction-aborted.error';
import { runInScope } from './transaction-context';
import type { TransactionGuard } from './transaction-guard';
import {
  ClosingScope,
  TransactionScope,
  type IsolationLevel,
  type TransactionWork,
} from './transaction-scope';

const logger = new Logger('Transactions');

/**
 * A transaction inside another one: a savepoint.
 *
 * 1. Wait until the parent has no other savepoint open: two that are interleaved on one connection keep the wrong rows.
 * 2. SAVEPOINT.
 * 3. Run the work inside the scope, then end the scope.
 * 4. RELEASE SAVEPOINT; what waits for the commit now waits for the parent's.
 * 5. Failure anywhere: ROLLBACK TO SAVEPOINT; what waits for the commit is dropped. If that fails, or has taken back
 *    statements of an enclosing scope, that scope must not be committed.
 *
 * @param isolationLevel the level asked for; anything but the outer transaction's own is refused
 */
export async function nestedTransaction<T>(
  parent: TransactionScope,
  guard: TransactionGuard,
  isolationLevel: IsolationLevel | undefined,
  work: TransactionWork<T>,
): Promise<T> {
  parent.assertActive();
  if (isolationLevel && isolationLevel !== parent.isolationLevel) {
    throw new IsolationLevelRefusedError(isolationLevel, parent.isolationLevel);
  }
  const { runner } = parent;
  const conductor = ConductedRunner.of(runner, guard);
  return parent.nested.run(async () => {
    parent.assertActive();
    const depth = runnerState(runner).transactionDepth;
    const scope = new TransactionScope(parent.dataSource, runner, parent.isolationLevel, parent, depth);
    scope.isSuspended = parent.isSuspended;
    parent.openChild = scope;
    try {
      await scope.step(() => setSavepoint(scope, conductor));
      scope.assertActive(); // over already when an enclosing scope ended first and took it back
      const result = await runInScope(scope, () => work(runner.manager));
      scope.assertActive();
      scope.state = 'ending';
      await scope.step(() => release(scope, conductor));
      return result;
    } catch (error) {
      if (scope.state !== 'rolled back') await scope.step(() => takeBack(scope, conductor));
      throw conductor.explain(error);
    }
  });
}

/**
 * Takes back the savepoint that is open inside a scope which is about to end. It belongs to work that was not awaited:
 * committing the half of it that has been done would be worse than none. Never throws.
 */
export async function abandonOpenChild(scope: TransactionScope, conductor: ConductedRunner): Promise<void> {
  for (let child = scope.openChild; child; child = scope.openChild) {
    await child.untilBetweenSteps();
    if (scope.openChild === child) await child.step(() => takeBack(child, conductor));
  }
}

async function setSavepoint(scope: TransactionScope, conductor: ConductedRunner): Promise<void> {
  try {
    await conductor.setSavepoint(scope);
  } catch (error) {
    // When a subscriber throws here, TypeORM marks the whole runner as idle. And its own transaction() answers a savepoint
    // that could not be set with a ROLLBACK of everything, after which the outer one goes on in autocommit.
    runnerState(scope.runner).isTransactionActive = true;
    throw error;
  }
}

async function release(scope: TransactionScope, conductor: ConductedRunner): Promise<void> {
  const { runner, depth, parent } = scope;
  await abandonOpenChild(scope, conductor);
  if (scope.doomed) throw scope.doomed;
  await conductor.guard.assertAlive(runner);
  const isDone = () => runnerState(runner).transactionDepth <= depth;
  try {
    await runInScope(new ClosingScope(scope, isDone), () => conductor.commit(scope));
  } catch (error) {
    if (!isDone()) throw error;
    logger.error('A subscriber to AfterTransactionCommit failed; the savepoint is released.', error);
  }
  scope.state = 'committed';
  if (!parent) return;
  parent.openChild = undefined;
  parent.afterCommit.push(...scope.afterCommit);
}

async function takeBack(scope: TransactionScope, conductor: ConductedRunner): Promise<void> {
  const { runner, depth, parent } = scope;
  scope.state = 'rolled back';
  await abandonOpenChild(scope, conductor);
  const isDone = () => runner.isReleased || runnerState(runner).transactionDepth <= depth;
  try {
    if (!isDone()) await runInScope(new ClosingScope(scope, isDone), () => conductor.rollback(scope));
  } catch (error) {
    if (!isDone() && parent) {
      parent.doomed ??= new TransactionAbortedError('kept', { cause: error });
      runnerState(runner).transactionDepth = depth;
    }
    logger.error('A nested transaction could not be rolled back cleanly.', error);
  } finally {
    if (parent?.openChild === scope) parent.openChild = undefined;
  }
}
