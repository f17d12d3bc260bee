import type { QueryRunner } from 'typeorm';
import type { Dialect } from '../persistence/dialect';
import type { Transactions } from '../transaction/transactions';

/** Takes the messages of a batch. */
export class BatchStore {
  constructor(
    private readonly transactions: Transactions,
    private readonly dialect: Dialect,
  ) {}

  /**
   * In the active transaction, which has to be the handler's.
   *
   * @returns ids of those that are ours
   */
  take(consumer: string, messageIds: readonly string[]): Promise<Set<string>> {
    const runner = this.transactions.active()?.queryRunner as QueryRunner;
    return this.dialect.inbox.takeMany(runner, consumer, messageIds);
  }
}
