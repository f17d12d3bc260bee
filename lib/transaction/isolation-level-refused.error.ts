import type { IsolationLevel } from './transaction-scope';

/** An isolation level was asked for inside a transaction that is already open, where the database cannot change it. */
export class IsolationLevelRefusedError extends Error {
  override readonly name = 'IsolationLevelRefusedError';

  constructor(asked: IsolationLevel, outer: IsolationLevel | undefined) {
    super(
      `Isolation level "${asked}" was asked for inside a transaction that was opened with ` +
        `${outer ? `"${outer}"` : 'the default level'}; a nested transaction is a savepoint and cannot change it. Ask for ` +
        'the level where the outer transaction is opened, or run this part with Transactions.outside().',
    );
  }
}
