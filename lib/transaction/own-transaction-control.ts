import type { QueryRunner } from 'typeorm';
import type { IsolationLevel } from './transaction-scope';

/** What the module's own transactions start with. Milliseconds. */
export interface OwnTransactionStart {
  readonly isolationLevel: IsolationLevel;
  readonly statementTimeout: number;
  readonly lockTimeout: number;
}

/** The statements around one of the module's own transactions. One implementation per database family. */
export interface OwnTransactionControl {
  /** Opens the transaction with its limits, in one round trip where the database can. */
  begin(runner: QueryRunner, start: OwnTransactionStart): Promise<void>;

  /** @returns ends the watch. `onLost` is told why the connection broke; later errors only say that it is gone. */
  watch(runner: QueryRunner, onLost: (cause: Error) => void): Promise<() => void> | (() => void);

  /** @throws {TransactionAbortedError} when the database rolled back instead */
  commit(runner: QueryRunner): Promise<void>;

  rollback(runner: QueryRunner): Promise<void>;

  /** Ends the statement that is running on `victim`, by means of `other`. */
  cancel(victim: QueryRunner, other: QueryRunner): Promise<void>;

  /** Releases the runner and closes its connection. Never throws. */
  discard(runner: QueryRunner, reason: Error): Promise<void>;
}
