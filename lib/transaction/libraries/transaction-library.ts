import type { DataSource } from 'typeorm';

/**
 * Another library for transactions, on a data source that is bridged. Each opens its transactions with
 * `dataSource.transaction()`, so they are the bridge's own, with all that the bridge promises. What is needed beyond that:
 *
 * - The library must know of transactions that others have opened, or its "join what is there" would open one. So every
 *   outer transaction is opened through it (see through-libraries.ts).
 * - Where it asks for a new transaction inside another one, or for none, it must get that.
 */
export interface TransactionLibrary {
  readonly name: string;

  /** Whether it has been set up for this data source. Asked for each transaction, so it has to be cheap. */
  worksOn(dataSource: DataSource): boolean;

  /** Whether the calling code is in a transaction of this data source, as the library sees it. */
  isActive(dataSource: DataSource): boolean;

  /**
   * Whether the call of `dataSource.transaction()` that is under way is the library's. Absent where the library says so
   * itself (see library-call.ts).
   */
  isOpening?(dataSource: DataSource): boolean;

  /** Opens a transaction through the library, new in any case, which calls `dataSource.transaction()` for it. */
  begin<T>(dataSource: DataSource, work: () => Promise<T>): Promise<T>;

  /** Called inside of what `begin` has opened. */
  opened?(dataSource: DataSource): void;

  /** Whether the library was told to run the calling code outside of the active transaction. Asked for each statement. */
  isSuspended?(dataSource: DataSource): boolean;

  /** Called inside of a savepoint that the library does not know of. @returns forgets what was to follow its commit */
  savepoint?(): () => void;
}
