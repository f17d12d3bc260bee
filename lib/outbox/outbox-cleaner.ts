import { LockedJob, type LockedJobOptions } from '../locking/locked-job';
import type { OutboxStore } from './outbox-store';

export interface OutboxCleanerDependencies extends Omit<LockedJobOptions, 'name' | 'work' | 'lease'> {
  readonly store: Pick<OutboxStore, 'deleteSent'>;
  /** Milliseconds that sent rows are kept; false when they are deleted at once. */
  readonly retention: number | false;
  /** Milliseconds that sent rows with a deduplication key are kept at least. Default 24 hours. */
  readonly deduplicationRetention?: number;
  /** Rows per statement. */
  readonly batchSize: number;
  /** Of the data source, where it has one. */
  readonly name?: string;
}

/**
 * Deletes rows that were sent long enough ago, in small batches and under the lock `outbox-cleaner`. Open and dead ones
 * never. It is needed without retention too: rows with a deduplication key are kept for their own time in any case,
 * which the statement sees to.
 */
export class OutboxCleaner {
  private readonly job: LockedJob;

  constructor(use: OutboxCleanerDependencies) {
    const { store, retention, deduplicationRetention, batchSize, name, ...job } = use;
    const olderThan = retention === false ? 0 : retention;
    this.job = new LockedJob({
      ...job,
      name: name ? `outbox-cleaner:${name}` : 'outbox-cleaner',
      work: async (signal) => {
        let deleted = batchSize;
        while (deleted >= batchSize && !signal.aborted)
          deleted = await store.deleteSent(olderThan, batchSize, deduplicationRetention);
      },
    });
  }

  start(): void {
    this.job.start();
  }

  /** May be called twice; never rejects. */
  stop(): Promise<void> {
    return this.job.stop();
  }

  /** Deletes all that is old enough now. @returns false when another process is cleaning */
  runOnce(): Promise<boolean> {
    return this.job.runOnce();
  }
}
