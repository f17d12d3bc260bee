import { Logger } from '@nestjs/common';
import { runOutsideScopes } from './transaction-context';
import type { TransactionScope } from './transaction-scope';

const logger = new Logger('Transactions');

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
