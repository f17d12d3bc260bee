import type { DataSource, EntityManager } from 'typeorm';

/**
 * Somebody who knows whether a transaction is active: our own context, or another library's. `Transactions` asks its
 * sources in order and takes the first answer.
 */
export interface TransactionSource {
  /** For messages, e.g. `typeorm-transactional`. */
  readonly name: string;

  /**
   * The manager of the transaction that the calling code is in.
   *
   * @returns `undefined` when there is none
   * @throws {TransactionEndedError} when the code was started in a transaction that is over
   */
  active(dataSource: DataSource): EntityManager | undefined;

  /** Runs `fn` once the outermost active transaction has been committed. Absent when the source cannot tell. */
  afterCommit?(dataSource: DataSource, fn: AfterCommitCallback): void;
}

/** Runs after the commit; what it throws is logged and has no other effect. */
export type AfterCommitCallback = () => void | Promise<void>;
