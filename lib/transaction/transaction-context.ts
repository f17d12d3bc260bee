import { ContextSlot } from '../context/context-slot';
import type { DataSource, QueryRunner } from 'typeorm';
import { dataSourceOf } from './data-source-of';
import type { TransactionScope } from './transaction-scope';

/** The scopes that the running code is in, one per data source at most. */
type Scopes = ReadonlyMap<DataSource, TransactionScope>;

const NOWHERE: Scopes = new Map();
const slot = new ContextSlot<Scopes>();

/**
 * The scope that the calling code was started in. It may be over: whoever uses it has to look at its state. None where
 * another library runs the code without the transaction.
 */
export function currentScope(dataSource: DataSource): TransactionScope | undefined {
  const scope = slot.get()?.get(dataSource)?.resolve();
  return scope?.isActive && scope.isSuspended() ? undefined : scope;
}

/** The scope of the calling code, if it is a scope on this very runner. */
export function currentScopeOn(runner: QueryRunner): TransactionScope | undefined {
  const scope = currentScope(dataSourceOf(runner));
  return scope?.runner === runner ? scope : undefined;
}

/** Runs `fn`, and everything it starts, inside the scope. */
export function runInScope<T>(scope: TransactionScope, fn: () => T): T {
  return slot.run(new Map(slot.get() ?? NOWHERE).set(scope.dataSource, scope), fn);
}

/** Runs `fn`, and everything it starts, in no transaction of this data source; in those of others all the same. */
export function runOutsideScopeOf<T>(dataSource: DataSource, fn: () => T): T {
  const scopes = new Map(slot.get() ?? NOWHERE);
  scopes.delete(dataSource);
  return slot.run(scopes, fn);
}

/** Runs `fn`, and everything it starts, in no transaction of any data source. */
export function runOutsideScopes<T>(fn: () => T): T {
  return slot.run(NOWHERE, fn);
}
