import type { LoggerService } from '@nestjs/common';
import { guardedLogger } from '../scheduling/guarded-logger';
import { within } from '../timing/within';
import { ExpiringLock } from './expiring-lock';
import { HeldLock } from './held-lock';
import { KeptLock } from './kept-lock';
import { LeaseEnd } from './lease-end';
import { resolveLockConfig, type LockConfig, type ResolvedLockConfig } from './lock-config';
import type { LockContext, LockHandle } from './lock-handle';
import { newLockOwner } from './lock-owner';
import { currentLock, runUnder } from './lock-scope';
import type { LockStore } from './lock-store';
import { NotLockedError } from './not-locked.error';

export interface LockServiceDependencies {
  readonly store: Pick<LockStore, 'take' | 'extend' | 'release'>;
  readonly logger: LoggerService;
}

/** What became of `execute()`: the task's result, or that somebody else had the lock. */
export type LockedResult<T> =
  { readonly executed: true; readonly result: T } | { readonly executed: false; readonly result?: undefined };

/**
 * Locks between all processes that use the same database, with the contract of ShedLock (docs/shedlock.md): a name that is
 * held for a time; who does not get it skips, and nobody waits. They live in rows of the table `shedlock`, on the database's
 * clock, each statement in a transaction of its own whatever transaction the caller is in.
 *
 * `execute()`, step by step:
 *
 * 1. Inside a run under the same lock the task just runs, as in ShedLock.
 * 2. Take the lock: an owner token that nobody else has, and a fence one higher than the last. Not obtained: skip.
 * 3. Run the task with `signal` and `fence`. The signal fires when the lock is lost or nearly over, and at a shutdown.
 * 4. Unlock in every case. That neither hides the task's error nor fails its result: what goes wrong is logged.
 *
 * At a shutdown nothing is taken any more, and the tasks that run are told and waited for, while the data source is open. A
 * task that does not end in time keeps its lock, which runs out by itself: another must not begin beside it.
 */
export class LockService {
  private readonly logger: LoggerService;
  private readonly shutdown = new AbortController();
  private readonly running = new Map<Promise<unknown>, string>();
  private readonly kept = new Map<HeldLock, string>();

  constructor(private readonly use: LockServiceDependencies) {
    this.logger = guardedLogger(use.logger);
  }

  /**
   * Takes a lock, or not; nobody waits. Unlock it in a `finally`, or use `execute()`.
   *
   * @returns `undefined` when somebody else holds it, and when the application is shutting down
   * @throws {InvalidOptionError} naming a bad option and its value
   * @throws {InboxOutboxSchemaError} when there is no lock table
   * @throws {LockUnansweredError} when the database does not answer; any other error of the database as it is
   */
  async tryLock(config: LockConfig): Promise<LockHandle | undefined> {
    return this.take(resolveLockConfig(config));
  }

  /**
   * Runs a task under a lock, or skips it when somebody else holds the lock.
   *
   * @param task should end when the signal aborts; whatever it starts it should await
   * @throws whatever the task throws, and what `tryLock()` throws
   */
  async execute<T>(
    config: LockConfig,
    task: (lock: LockContext) => Promise<T> | T,
  ): Promise<LockedResult<T>> {
    const resolved = resolveLockConfig(config);
    const outer = currentLock(this, resolved.name);
    if (outer) return { executed: true, result: await task(outer) };
    const lock = await this.take(resolved);
    if (!lock) {
      this.logger.debug?.(`Lock ${resolved.name} is held by somebody else: skipped`);
      return { executed: false };
    }
    const run = this.perform(lock, task);
    this.running.set(run, lock.name);
    try {
      return { executed: true, result: await run };
    } finally {
      this.running.delete(run);
    }
  }

  /**
   * For code that must not run without its lock: throws unless it is called, directly or not, from `execute()` or from a
   * method with `@SchedulerLock()`, on this data source, while that lock is held.
   *
   * @param name of the lock; default: any
   * @returns the lock, with its signal and fence
   * @throws {NotLockedError}
   */
  assertLocked(name?: string): LockContext {
    const lock = currentLock(this, name);
    if (!lock) throw new NotLockedError(name);
    return lock;
  }

  /**
   * Takes nothing any more, tells the tasks that run, and waits for them. Never rejects.
   *
   * @internal
   * @param timeout milliseconds
   */
  async stop(timeout: number): Promise<void> {
    this.shutdown.abort(new Error('The application is shutting down'));
    if (!(await within(timeout, Promise.allSettled(this.running.keys())))) {
      const names = [...this.running.values()].join(', ');
      this.logger.warn(`Shutdown: tasks are still running under ${names}; these locks run out by themselves`);
    }
    for (const [lock, name] of this.kept) {
      lock.abandon();
      this.logger.warn(`Shutdown: lock ${name} was not unlocked; it runs out by itself`);
    }
    this.kept.clear();
  }

  private async perform<T>(lock: LockHandle, task: (lock: LockContext) => Promise<T> | T): Promise<T> {
    try {
      return await runUnder(this, lock, async () => task(lock));
    } finally {
      await this.giveBack(lock);
    }
  }

  private async giveBack(lock: LockHandle): Promise<void> {
    try {
      if (await lock.unlock()) return;
      this.logger.warn(`Lock ${lock.name} had run out or was taken before its task ended`);
    } catch (error) {
      this.logger.warn(`Lock ${lock.name} could not be released and will run out: ${String(error)}`);
    }
  }

  private async take(config: ResolvedLockConfig): Promise<LockHandle | undefined> {
    const { store } = this.use;
    const { name, lockAtMostFor } = config;
    if (this.shutdown.signal.aborted) return undefined;
    const grant = await store.take(name, newLockOwner(), lockAtMostFor);
    if (!grant) return undefined;
    if (this.shutdown.signal.aborted) {
      // It began meanwhile, and does not wait for what begins now.
      await store.release(grant).catch(() => undefined);
      return undefined;
    }
    if (config.keepAlive) {
      const lock = new HeldLock(store, grant, lockAtMostFor, this.logger);
      this.kept.set(lock, name);
      return new KeptLock(lock, config, this.untilShutdown(lock.signal), () => this.kept.delete(lock));
    }
    const end = new LeaseEnd(name, grant.deadline);
    return new ExpiringLock({ store, grant, config, end, signal: this.untilShutdown(end.signal) });
  }

  private untilShutdown(signal: AbortSignal): AbortSignal {
    return AbortSignal.any([signal, this.shutdown.signal]);
  }
}
