import type { QueryRunner } from 'typeorm';

/** Messages that come many at once. */
export interface InboxBatchStatements {
  /**
   * P1 step 2 for many messages of one consumer, the first statement of the handler's transaction. Copies in the list count
   * once. Whoever takes some of the same messages at the same time, in whatever order they came, waits and does not deadlock.
   *
   * @returns ids of those that are ours; the others are duplicates
   */
  takeMany(runner: QueryRunner, consumer: string, messageIds: readonly string[]): Promise<Set<string>>;
}
