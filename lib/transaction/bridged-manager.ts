import { type DataSource, type EntityManager, type QueryRunner } from 'typeorm';
import { outerTransaction } from './bridged-transaction';
import { ConductedRunner } from './conducted-runner';
import { dataSourceOf } from './data-source-of';
import { joinHandDriven } from './hand-driven';
import { nestedTransaction } from './nested-transaction';
import { refusingRunner } from './runner-stand-in';
import { currentScope } from './transaction-context';
import type { TransactionGuard } from './transaction-guard';
import type { IsolationLevel, TransactionWork } from './transaction-scope';

/**
 * The runner that code without one of its own uses here: that of the active transaction, or none.
 *
 * Code whose transaction is over, or has lost its connection, gets a runner that refuses with the reason. With none it
 * would go on in autocommit.
 */
export function joinedRunner(dataSource: DataSource): QueryRunner | undefined {
  const scope = currentScope(dataSource);
  if (!scope) return undefined;
  const { runner, state } = scope;
  if (state !== 'active') return refusingRunner(runner, () => scope.endedError(state));
  const lost = ConductedRunner.find(runner)?.lost;
  return lost ? refusingRunner(runner, () => lost) : runner;
}

/** `EntityManager.transaction()`: nested where a transaction is active, else an outer one. */
export function transactionInBridge<T>(
  manager: EntityManager,
  guard: TransactionGuard,
  isolationLevel: IsolationLevel | undefined,
  work: TransactionWork<T>,
): Promise<T> {
  const dataSource = dataSourceOf(manager);
  const scope = currentScope(dataSource);
  const runner = Object.hasOwn(manager, 'queryRunner') ? manager.queryRunner : undefined;
  if (scope && (!runner || runner === scope.runner)) {
    return nestedTransaction(scope, guard, isolationLevel, work);
  }
  const around = runner && (ConductedRunner.find(runner)?.outer ?? joinHandDriven(runner, guard));
  if (around?.isActive) return nestedTransaction(around, guard, isolationLevel, work);
  return outerTransaction({ dataSource, guard, runner, isolationLevel }, work);
}
