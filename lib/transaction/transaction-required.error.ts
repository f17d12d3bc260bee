/** Something that only makes sense inside a transaction was called outside of one. */
export class TransactionRequiredError extends Error {
  override readonly name = 'TransactionRequiredError';

  /** @param what what was asked for, as the subject of the message, e.g. `publish()` */
  constructor(what: string) {
    super(
      `${what} needs an active transaction and there is none. Call it inside dataSource.transaction(), ` +
        'manager.transaction() or Transactions.run(); for a queryRunner.startTransaction() driven by hand pass ' +
        '{ manager: queryRunner.manager }.',
    );
  }
}
