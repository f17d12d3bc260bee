/** How a transaction (or a savepoint) ended, as far as its own stragglers are concerned. */
export type TransactionEnd = 'committed' | 'rolled back' | 'ending';

/**
 * Work that was started inside a transaction touched the database after the transaction's end. It is refused, because
 * the only other choice would be to write outside of the transaction it was meant for.
 */
export class TransactionEndedError extends Error {
  override readonly name = 'TransactionEndedError';

  /**
   * @param what `transaction` or, for a nested one, `nested transaction`
   * @param end how it ended
   */
  constructor(what: string, end: TransactionEnd) {
    const state = end === 'ending' ? 'is already ending' : `has already ended (${end})`;
    super(
      `This work was started inside a ${what} that ${state}, and it was not awaited there. Await it inside the ` +
        'transaction, or start it with Transactions.outside() if it is to live longer than the transaction.',
    );
  }
}
