import type { DataSource, EntityManager, QueryRunner } from 'typeorm';
import { AfterCommitUnsupportedError } from './after-commit-unsupported.error';
import { type OwnTransactionOptions, ownTransaction } from './own-work';
import { TransactionRequiredError } from './transaction-required.error';
import type { ExplicitTransaction, Transactions } from './transactions';

export interface JoinedWorkParts {
  readonly dataSource: DataSource;
  readonly transactions: Pick<Transactions, 'resolve' | 'afterCommit'>;
}

/**
 * Statements of the module that belong to what the caller does: they run in the caller's transaction where there is one, the
 * explicit manager's or the active one, else in a short one of their own.
 */
export class JoinedWork {
  constructor(
    private readonly parts: JoinedWorkParts,
    private readonly limits: OwnTransactionOptions,
  ) {}

  /**
   * @param afterCommit called after the outer commit; where that cannot be seen (a library that does not tell of it), at once
   * @throws {TransactionEndedError} in work that outlived the transaction it was started in
   * @throws {ForeignManagerError} when `manager` belongs to another data source
   */
  async run<T>(
    { manager }: ExplicitTransaction,
    work: (runner: QueryRunner) => Promise<T>,
    afterCommit?: (result: T) => void,
  ): Promise<T> {
    const { dataSource, transactions } = this.parts;
    const active = transactions.resolve({ manager });
    if (!active) {
      const result = await ownTransaction(dataSource, this.limits, work);
      afterCommit?.(result);
      return result;
    }
    const result = await work(runnerOf(active));
    if (afterCommit) callAfterCommit(transactions, active, () => afterCommit(result));
    return result;
  }
}

/** Calls it after the outer commit; where that cannot be seen (a library that does not tell of it), at once. */
export function callAfterCommit(
  transactions: Pick<Transactions, 'afterCommit'>,
  manager: EntityManager,
  callback: () => void,
): void {
  try {
    transactions.afterCommit(callback, { manager });
  } catch (error) {
    const isUnseen =
      error instanceof AfterCommitUnsupportedError || error instanceof TransactionRequiredError;
    if (!isUnseen) throw error;
    callback();
  }
}

/** The connection of an active transaction. */
export function runnerOf({ queryRunner }: EntityManager): QueryRunner {
  if (!queryRunner) throw new Error('The manager of an active transaction has no query runner');
  return queryRunner;
}
