import { QueryRunnerAlreadyReleasedError, QueryRunnerProviderAlreadyReleasedError } from 'typeorm';

/** The connection of the running transaction broke; the database has rolled the transaction back. */
export class ConnectionLostError extends Error {
  override readonly name = 'ConnectionLostError';
  /** The driver's code where it has one, e.g. PostgreSQL's `57P01` (terminated by an administrator). */
  readonly code: string | undefined;

  /** @param cause what the driver said when the connection broke */
  constructor(override readonly cause: Error) {
    const code = (cause as { code?: unknown }).code;
    const shown = typeof code === 'string' ? ` (${code})` : '';
    super(
      `The database connection of this transaction was lost${shown}: ${cause.message}. The transaction is rolled back; ` +
        'run it again.',
    );
    this.code = typeof code === 'string' ? code : undefined;
  }
}

/** What to throw for an error: after a broken connection TypeORM's own says that the runner is released, and not why. */
export function explainLoss(error: unknown, lost: ConnectionLostError | undefined): unknown {
  const isReleased =
    error instanceof QueryRunnerAlreadyReleasedError ||
    error instanceof QueryRunnerProviderAlreadyReleasedError;
  return lost && isReleased ? lost : error;
}
