/** A lock statement got no answer. Whether the lock is held is unknown; a grant that comes later is given back. */
export class LockUnansweredError extends Error {
  override readonly name = 'LockUnansweredError';

  constructor(
    readonly lock: string,
    milliseconds: number,
  ) {
    super(
      `Lock ${lock}: the database has not answered within ${milliseconds} ms. Is it away, or are all connections of the ` +
        'pool in use? (A lock needs a connection of its own, beside that of a transaction around it.)',
    );
  }
}
