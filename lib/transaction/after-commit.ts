import { Logger } from '@nestjs/common';
import type { DataSource } from 'typeorm';
import { currentScope, runOutsideScopes } from './transaction-context';
import type { TransactionScope } from './transaction-scope';
import type { AfterCommitCallback } from './transaction-source';

const logger = new Logger('Transactions');

/**
 * Runs `fn` when the outermost transaction that the calling code is in has ended, however it ended, and its locks are free.
 * What it throws is logged.
 *
 * @returns false when there is none of ours, so that nothing tells when it ends
 */
export function afterEnd(dataSource: DataSource, fn: AfterCommitCallback): boolean {
  const scope = currentScope(dataSource);
  if (!scope) return false;
  scope.outermost.afterEnd.push(fn);
  return true;
}

/** Runs what waited for the end of the transaction, in order, outside of any transaction. Never throws. */
export async function runAfterEnd(scope: TransactionScope): Promise<void> {
  for (const callback of scope.afterEnd.splice(0)) {
    try {
      await runOutsideScopes(callback);
    } catch (error) {
      logger.error('What was to be done after the end of a transaction failed.', error);
    }
  }
}

/** Runs what waited for the commit, in order, outside of any transaction. One that throws is logged. Never throws. */
export async function runAfterCommit(scope: TransactionScope): Promise<void> {
  for (const callback of scope.afterCommit) {
    try {
      await runOutsideScopes(callback);
    } catch (error) {
      logger.error('A callback registered with afterCommit() failed; the transaction is committed.', error);
    }
  }
}
