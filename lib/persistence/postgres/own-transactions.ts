import { QueryRunnerAlreadyReleasedError, type QueryRunner } from 'typeorm';
import type { OwnTransactionControl } from '../../transaction/own-transaction-control';
import { TransactionAbortedError } from '../../transaction/transaction-aborted.error';
import { discardRunner, PostgresTransactionGuard } from './transaction-status';
import { cancelStatement } from './cancel-statement';

interface PgClient {
  query(sql: string): Promise<{ command?: string }>;
}

const guard = new PostgresTransactionGuard();

/** The module's own transactions on PostgreSQL. Past TypeORM's runner, which would take three round trips to begin. */
export const postgresOwnTransactions: OwnTransactionControl = {
  async begin(runner, { isolationLevel, statementTimeout, lockTimeout }) {
    await send(
      runner,
      `BEGIN ISOLATION LEVEL ${isolationLevel}; ` +
        `SET LOCAL statement_timeout = ${milliseconds(statementTimeout)}; ` +
        `SET LOCAL lock_timeout = ${milliseconds(lockTimeout)}; ` +
        // A process that is paused in the middle must not keep the others from the rows and locks that it holds.
        `SET LOCAL idle_in_transaction_session_timeout = ${milliseconds(statementTimeout)}`,
    );
  },

  watch: (runner, onLost) => guard.watch(runner, onLost),

  async commit(runner) {
    // A transaction that was ended by a raw ROLLBACK answers COMMIT with COMMIT, and a warning.
    await guard.assertAlive(runner);
    // One that failed answers with ROLLBACK, and with no error.
    const { command } = await send(runner, 'COMMIT');
    if (command !== 'COMMIT') throw new TransactionAbortedError('failed');
  },

  async rollback(runner) {
    await send(runner, 'ROLLBACK');
  },

  cancel: cancelStatement,

  discard: discardRunner,
};

async function send(runner: QueryRunner, sql: string): Promise<{ command?: string }> {
  // A released runner still gives its old client, which may be somebody else's by now.
  if (runner.isReleased) throw new QueryRunnerAlreadyReleasedError();
  const client = (await runner.connect()) as PgClient;
  return client.query(sql);
}

/** PostgreSQL takes 0 for "no limit", which is never meant. */
function milliseconds(limit: number): number {
  return Math.max(1, Math.round(limit));
}
