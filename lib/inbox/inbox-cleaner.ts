import { LockedJob, type LockedJobOptions } from '../locking/locked-job';
import type { InboxStore } from './inbox-store';

export interface InboxCleanerDependencies extends Omit<LockedJobOptions, 'name' | 'work' | 'lease'> {
  readonly store: Pick<InboxStore, 'deleteDone'>;
  /** Milliseconds that a message is remembered after it was handled. */
  readonly retention: number;
  /** Rows per statement. */
  readonly batchSize: number;
  /** Of the data source, where it has one. */
  readonly name?: string;
}

/**
 * Deletes what was handled long enough ago, in small batches and under the lock `inbox-cleaner`. Counted from when it was
 * handled and not from when it came; what is open, failed or dead stays.
 */
export class InboxCleaner {
  private readonly job: LockedJob;

  constructor(private readonly use: InboxCleanerDependencies) {
    const { name, scheduler, locks, logger, interval } = use;
    this.job = new LockedJob({
      scheduler,
      locks,
      logger,
      interval,
      name: name ? `inbox-cleaner:${name}` : 'inbox-cleaner',
      work: (signal) => this.cleanOnce(signal),
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

  /**
   * The work itself, without the lock: batch by batch, each in a transaction of its own so that nobody waits for long.
   *
   * @returns how many rows were deleted
   */
  async cleanOnce(signal?: AbortSignal): Promise<number> {
    const { store, retention, batchSize } = this.use;
    let deleted = 0;
    for (;;) {
      const batch = await store.deleteDone(retention, batchSize);
      deleted += batch;
      if (batch < batchSize || signal?.aborted) return deleted;
    }
  }
}
