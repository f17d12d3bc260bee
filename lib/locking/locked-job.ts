import type { LoggerService } from '@nestjs/common';
import { guardedLogger } from '../scheduling/guarded-logger';
import { type IntervalRegistry, NamedInterval } from '../scheduling/named-interval';
import { within } from '../timing/within';
import { HeldLock } from './held-lock';
import { checkLockName } from './lock-name';
import { newLockOwner } from './lock-owner';
import type { LockStore } from './lock-store';

/** Milliseconds that a stop waits. */
const PATIENCE = 5_000;

export interface LockedJobOptions {
  /** Of the interval in the `SchedulerRegistry` and of the lock row. */
  readonly name: string;
  /** Milliseconds between two runs. */
  readonly interval: number;
  /** Milliseconds that the lock is held without renewal; it is renewed while the job runs. Default 30,000. */
  readonly lease?: number;
  readonly scheduler: IntervalRegistry;
  readonly locks: LockStore;
  readonly logger: LoggerService;
  /** One run. It should end early when the signal aborts: the lock is lost, or the job is being stopped. */
  readonly work: (signal: AbortSignal) => Promise<unknown>;
}

/**
 * A job of the module's own that runs in one process at a time: registers a named interval in the `SchedulerRegistry`,
 * one run at a time, each under the lock of the same name; who does not get the lock skips. Errors are logged, the first
 * of a row of failures as an error, and never thrown out of a tick.
 */
export class LockedJob {
  private readonly interval: NamedInterval;
  private readonly logger: LoggerService;
  private running: Promise<boolean> | undefined;
  private stopping = new AbortController();
  private failing = false;

  /** @throws {InvalidOptionError} for a name that the lock table cannot hold (the data source's name is a part of it) */
  constructor(private readonly options: LockedJobOptions) {
    checkLockName('dataSource', options.name);
    this.logger = guardedLogger(options.logger);
    this.interval = new NamedInterval(options.scheduler, options.name, options.interval, () => this.tick());
  }

  start(): void {
    this.stopping = new AbortController();
    this.interval.start();
  }

  /**
   * No further run; waits for the one under way, which has been told to end, but not for a database that does not answer.
   * May be called twice; never rejects.
   */
  async stop(): Promise<void> {
    this.interval.stop();
    this.stopping.abort();
    if (this.running)
      await within(
        PATIENCE,
        this.running.catch(() => undefined),
      );
  }

  /**
   * One run now, or the one under way. Works without a start.
   *
   * @returns false when another process has the lock
   * @throws whatever the work throws
   */
  runOnce(): Promise<boolean> {
    this.running ??= this.interval.outside(() => this.underLock().finally(() => (this.running = undefined)));
    return this.running;
  }

  private tick(): void {
    if (this.running) return;
    this.runOnce().then(
      () => this.recovered(),
      (error: unknown) => this.failed(error),
    );
  }

  private async underLock(): Promise<boolean> {
    const { locks, name, lease = 30_000, work } = this.options;
    const grant = await locks.take(name, newLockOwner(), lease);
    if (!grant) return false;
    const lock = new HeldLock(locks, grant, lease, this.logger);
    try {
      await work(AbortSignal.any([lock.signal, this.stopping.signal]));
      return true;
    } finally {
      await lock.release();
    }
  }

  private recovered(): void {
    if (this.failing) this.logger.log(`Job ${this.options.name} works again`);
    this.failing = false;
  }

  private failed(error: unknown): void {
    if (!this.failing)
      this.logger.error(`Job ${this.options.name} failed and is tried again: ${String(error)}`);
    this.failing = true;
  }
}
