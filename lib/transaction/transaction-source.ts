import type { DataSource, EntityManager } from 'typeorm';

/**
 * Somebody who knows whether a transaction is active. Transactions that are opened with `dataSource.transaction()` are known
 * by themselves, typeorm-transactional's and @nestjs-cls/transactional's too. This is for others, e.g. a library that opens
 * its transactions on query runners of its own: the option `transactionSources` plugs them in.
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

  /**
   * Runs `fn` outside of the source's transactions; what it gives back is given back. Called for `Transactions.outside()` and
   * for the module's own work. Absent where leaving the source's context is not needed.
   */
  outside?<T>(fn: () => T): T;

  /**
   * Runs `fn` once the outermost active transaction has been committed. Absent when the source cannot tell: the
   * end is seen on the manager's query runner then, where it has one.
   */
  afterCommit?(dataSource: DataSource, fn: AfterCommitCallback): void;
}

/** Runs after the commit; what it throws is logged and has no other effect. */
export type AfterCommitCallback = () => void | Promise<void>;
