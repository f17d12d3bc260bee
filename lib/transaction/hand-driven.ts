import type { QueryRunner } from 'typeorm';
import { runAfterCommit, runAfterEnd } from './after-commit';
import { ConductedRunner } from './conducted-runner';
import { dataSourceOf } from './data-source-of';
import { abandonOpenChild } from './nested-transaction';
import { runnerState } from './runner-state';
import type { TransactionGuard } from './transaction-guard';
import { TransactionScope } from './transaction-scope';

/**
 * The scope of a transaction that the application drives by hand (`queryRunner.startTransaction()`), from the first time
 * that somebody joins it by passing its manager. Its end is seen through the runner's own methods, which are put back
 * then: so after-commit work is possible here too, and the guard is asked before the COMMIT.
 *
 * @returns `undefined` when no transaction is open on the runner
 */
export function joinHandDriven(runner: QueryRunner, guard: TransactionGuard): TransactionScope | undefined {
  if (!runner.isTransactionActive || runner.isReleased) return undefined;
  const conductor = ConductedRunner.of(runner, guard);
  if (conductor.outer) return conductor.outer;
  const scope = new TransactionScope(dataSourceOf(runner), runner, undefined, undefined, 0);
  conductor.adopt(scope);

  const commitTransaction = runner.commitTransaction.bind(runner);
  const rollbackTransaction = runner.rollbackTransaction.bind(runner);
  const release = runner.release.bind(runner);
  const end = (state: 'committed' | 'rolled back') => {
    scope.state = state;
    conductor.close(scope);
    for (const method of Object.keys(seen)) Reflect.deleteProperty(runner, method);
  };
  const isOutermost = () => runnerState(runner).transactionDepth === 1;
  const seen = {
    async commitTransaction(): Promise<void> {
      await abandonOpenChild(scope, conductor);
      if (!isOutermost()) return commitTransaction();
      if (scope.doomed) throw scope.doomed;
      await guard.assertAlive(runner);
      try {
        await conductor.commit(scope);
      } finally {
        if (!runner.isTransactionActive) end('committed');
      }
      await runAfterCommit(scope);
      await runAfterEnd(scope);
    },
    async rollbackTransaction(): Promise<void> {
      await abandonOpenChild(scope, conductor);
      if (!isOutermost()) return rollbackTransaction();
      try {
        await conductor.rollback(scope);
      } finally {
        if (!runner.isTransactionActive) end('rolled back');
      }
      await runAfterEnd(scope);
    },
    async release(): Promise<void> {
      end('rolled back');
      await release();
      await runAfterEnd(scope);
    },
  };
  Object.assign(runner, seen);
  return scope;
}
