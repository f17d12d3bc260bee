/** The active transaction belongs to a library that cannot tell when it is committed. */
export class AfterCommitUnsupportedError extends Error {
  override readonly name = 'AfterCommitUnsupportedError';

  /** @param source the library, as it names itself */
  constructor(source: string) {
    super(
      `afterCommit() cannot be used in a transaction of ${source}, which does not tell when it is committed. Open the ` +
        'transaction with dataSource.transaction() or Transactions.run(), or do the work after its call has returned.',
    );
  }
}
