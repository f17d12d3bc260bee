/**
 * Why a transaction cannot be committed any more: `failed` when a statement in it failed and the database has given it
 * up, `ended` when something ended it behind our back, `undone` when a savepoint took a part of it back, `kept` when a
 * savepoint could not take back what it should have.
 */
export type AbortReason = 'failed' | 'ended' | 'undone' | 'kept';

const FACTS: Record<AbortReason, string> = {
  failed:
    'a statement in the transaction failed and its error was swallowed; the database has aborted the transaction and ' +
    'would answer COMMIT with a silent ROLLBACK. Let the error through, or run the statement that may fail in a nested ' +
    'transaction (a savepoint)',
  ended:
    'somebody ended the transaction from inside (a raw COMMIT or ROLLBACK, or commitTransaction() on its runner), so that ' +
    'later statements would have been committed one by one. Throw an error to roll a transaction back',
  undone:
    'statements of the enclosing transaction ran while a nested one was open and were taken back together with it. Await ' +
    'the nested transaction before the next statement of the enclosing one',
  kept: 'a nested transaction failed and could not be rolled back to its savepoint (see the cause)',
};

/** A transaction could not be committed, and was rolled back. Its caller must not report success. */
export class TransactionAbortedError extends Error {
  override readonly name = 'TransactionAbortedError';

  constructor(
    readonly reason: AbortReason,
    options?: ErrorOptions,
  ) {
    super(`The transaction was not committed: ${FACTS[reason]}.`, options);
  }
}
