import { ContextSlot } from '../../context/context-slot';
import type { DataSource } from 'typeorm';
import type { TransactionWork } from '../transaction-scope';
import type { TransactionLibrary } from './transaction-library';

/** A call of a library's that is going to call `dataSource.transaction()`, once. */
export interface LibraryCall {
  readonly library: TransactionLibrary;
  readonly dataSource: DataSource;
  /** Whether the call has come; later ones, from inside of the transaction, are somebody else's. */
  taken: boolean;
  /** What to do then, where we have asked the library to open the transaction. */
  readonly open?: (work: TransactionWork<unknown>) => Promise<unknown>;
}

const calls = new ContextSlot<LibraryCall>();

/** Runs `fn`, which makes the library call `dataSource.transaction()`. */
export function inLibraryCall<T>(call: LibraryCall, fn: () => T): T {
  return calls.run(call, fn);
}

/** The same for a library that opens a transaction by itself. Where we have asked it to, that is known already. */
export function asLibrary<T>(library: TransactionLibrary, dataSource: DataSource, fn: () => T): T {
  const asked = calls.get();
  const isAsked = asked && !asked.taken && asked.library === library && asked.dataSource === dataSource;
  return isAsked ? fn() : calls.run({ library, dataSource, taken: false }, fn);
}

/** The library's call that `dataSource.transaction()` has been called by. The first who asks gets it. */
export function takeLibraryCall(dataSource: DataSource): LibraryCall | undefined {
  const call = calls.get();
  if (!call || call.taken || call.dataSource !== dataSource) return undefined;
  call.taken = true;
  return call;
}
