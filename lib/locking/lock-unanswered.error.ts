import type { DatabaseUnansweredError } from '../transaction/unanswered.error';

/** A lock statement got no answer. A lock that it may have taken all the same is given back, or runs out. */
export class LockUnansweredError extends Error {
  override readonly name = 'LockUnansweredError';

  constructor(
    readonly lock: string,
    override readonly cause: DatabaseUnansweredError,
  ) {
    super(
      `Lock ${lock}: the database has not answered within ${cause.patience} ms. Is it away, or are all connections of the ` +
        'pool in use? (A lock needs a connection of its own, beside that of a transaction around it.)',
    );
  }
}
