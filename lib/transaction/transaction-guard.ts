import type { QueryRunner } from 'typeorm';

/**
 * What the bridge must know from the database about a running transaction, without a round trip. One implementation per
 * database family.
 */
export interface TransactionGuard {
  /**
   * Asked before every COMMIT, and before a savepoint is released.
   *
   * @throws {TransactionAbortedError} when a COMMIT would not keep everything that was written
   */
  assertAlive(runner: QueryRunner): Promise<void> | void;

  /**
   * Asked before every statement of a transaction. A failed transaction is still open (it can be rolled back to a
   * savepoint); one that was ended is not, and a statement would be committed by itself.
   *
   * @throws {TransactionAbortedError} when no transaction is open
   */
  assertOpen?(runner: QueryRunner): Promise<void> | void;

  /** No transaction is open on the connection, it may go back to the pool. */
  isIdle?(runner: QueryRunner): Promise<boolean> | boolean;

  /** Releases the runner and closes its connection, so that nobody else gets it. Never throws. */
  discard?(runner: QueryRunner, reason: Error): Promise<void>;

  /** Tells when the connection breaks. Gives the function that stops watching. */
  watch?(runner: QueryRunner, onLost: (cause: Error) => void): Promise<() => void> | (() => void);
}
