import { type DataSource, type EntityManager, type QueryRunner } from 'typeorm';
import { outerTransaction } from './bridged-transaction';
import { ConductedRunner } from './conducted-runner';
import { dataSourceOf } from './data-source-of';
import { joinHandDriven } from './hand-driven';
import { createJoiningManager } from './libraries/joining-manager';
import { takeLibraryCall } from './libraries/library-call';
import { throughLibraries } from './libraries/through-libraries';
import type { TransactionLibrary } from './libraries/transaction-library';
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

/** What takes part in the transactions of a data source. */
export interface Participants {
  readonly guard: TransactionGuard;
  /** Those that have been set up for the data source. */
  readonly libraries: readonly TransactionLibrary[];
}

/**
 * `EntityManager.transaction()`: nested where a transaction is active, else an outer one. Another library that knows of the
 * active one and calls this all the same wants a new one.
 */
export function transactionInBridge<T>(
  manager: EntityManager,
  { guard, libraries }: Participants,
  isolationLevel: IsolationLevel | undefined,
  work: TransactionWork<T>,
): Promise<T> {
  const dataSource = dataSourceOf(manager);
  const call = takeLibraryCall(dataSource);
  if (call?.open) return call.open(work) as Promise<T>;
  const opening = call?.library ?? libraries.find((library) => library.isOpening?.(dataSource));
  const scope = currentScope(dataSource);
  const runner = Object.hasOwn(manager, 'queryRunner') ? manager.queryRunner : undefined;
  const wantsNew = opening !== undefined && !runner && opening.isActive(dataSource);
  if (scope && !wantsNew && (!runner || runner === scope.runner)) {
    return nestedTransaction(scope, guard, isolationLevel, forgetting(libraries, work));
  }
  const around = runner && (ConductedRunner.find(runner)?.outer ?? joinHandDriven(runner, guard));
  if (around?.isActive) return nestedTransaction(around, guard, isolationLevel, forgetting(libraries, work));
  const where = { dataSource, guard, runner, isolationLevel };
  if (libraries.length === 0 && !opening) return outerTransaction(where, work);
  // A library keeps the manager that it gets.
  return throughLibraries(libraries, where, opening ? () => work(createJoiningManager(dataSource)) : work);
}

/** Work in a savepoint: when it is taken back, so is what the libraries were asked to do after the commit. */
function forgetting<T>(
  libraries: readonly TransactionLibrary[],
  work: TransactionWork<T>,
): TransactionWork<T> {
  if (!libraries.some((library) => 'savepoint' in library)) return work;
  return async (manager) => {
    const undo = libraries.map((library) => library.savepoint?.());
    try {
      return await work(manager);
    } catch (error) {
      for (const forget of undo) forget?.();
      throw error;
    }
  };
}
