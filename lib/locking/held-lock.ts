import type { LoggerService } from '@nestjs/common';
import type { Deadline } from './deadline';
import { LockLostError } from './lock-lost.error';
import type { Grant, LockStore } from './lock-store';

/**
 * A lock that is held and kept alive.
 *
 * 1. It is extended at a third of the lease, again and again, until it is released or lost.
 * 2. An extension that is refused means lost. One that fails (database away) is tried again until the deadline.
 * 3. When the local deadline passes, whatever the database does or does not say, the lock counts as lost.
 * 4. Lost is told by `signal`, once, and is for good.
 */
export class HeldLock {
  private readonly lost = new AbortController();
  private renewal: NodeJS.Timeout | undefined;
  private end: NodeJS.Timeout | undefined;
  private extending: Promise<void> | undefined;
  private releasing: Promise<boolean> | undefined;
  private over = false;
  private abandoned = false;

  /**
   * @param lease milliseconds that the grant was given for, and each extension asks for
   * @param wanted asked before each extension: false releases the lock instead
   */
  constructor(
    private readonly store: Pick<LockStore, 'extend' | 'release'>,
    private grant: Grant,
    private readonly lease: number,
    private readonly logger: LoggerService,
    private readonly wanted: () => boolean = () => true,
  ) {
    this.schedule();
  }

  /** Aborts when the lock is lost or its deadline passes. Not when it is released. */
  get signal(): AbortSignal {
    return this.lost.signal;
  }

  get fence(): string {
    return this.grant.fence;
  }

  /** On the database's clock. */
  get lockedUntil(): Date {
    return this.grant.lockedUntil;
  }

  /** Until when this process may rely on the lock. */
  get deadline(): Deadline {
    return this.grant.deadline;
  }

  /** Whether this process may act as the holder at this moment. */
  get held(): boolean {
    return !this.over && !this.lost.signal.aborted && !this.grant.deadline.passed;
  }

  /** Gives the lock back. May be called twice; never rejects: a lock that cannot be released runs out by itself. */
  async release(atLeastFor = 0): Promise<void> {
    try {
      await this.unlock(atLeastFor);
    } catch (error) {
      this.logger.warn(`Lock ${this.grant.name} could not be released and will run out: ${String(error)}`);
    }
  }

  /**
   * Gives the lock back, and does not count as held from here on.
   *
   * @param atLeastFor milliseconds from when it was taken
   * @returns whether it was held until now
   * @throws whatever the database says; it may then be tried again
   */
  unlock(atLeastFor = 0): Promise<boolean> {
    this.over = true;
    this.releasing ??= this.giveBack(atLeastFor).catch((error: unknown) => {
      this.releasing = undefined;
      throw error;
    });
    return this.releasing;
  }

  /** Renews it no more and gives nothing back: the lock runs out in its time, and the signal tells so. */
  abandon(): void {
    this.abandoned = true;
    clearTimeout(this.renewal);
  }

  private async giveBack(atLeastFor: number): Promise<boolean> {
    this.stopTimers();
    // An extension under way must not come after the release.
    await this.extending;
    return this.store.release(this.grant, atLeastFor);
  }

  private schedule(): void {
    this.stopTimers();
    this.renewIn(this.lease / 3);
    this.end = setTimeout(() => this.lose('its time ran out'), this.deadline.remaining).unref();
  }

  private renewIn(milliseconds: number): void {
    if (!this.abandoned) this.renewal = setTimeout(() => this.renew(), milliseconds).unref();
  }

  private renew(): void {
    if (this.wanted()) this.extending = this.extend();
    else void this.release();
  }

  private async extend(): Promise<void> {
    try {
      const grant = await this.store.extend(this.grant, this.lease);
      if (this.over || this.signal.aborted) return;
      if (!grant) return this.lose('somebody else has taken it, or it was deleted');
      this.grant = grant;
      this.schedule();
    } catch (error) {
      if (this.over || this.signal.aborted) return;
      this.logger.warn(`Lock ${this.grant.name} could not be extended: ${String(error)}`);
      this.renewIn(this.lease / 10);
    }
  }

  private lose(why: string): void {
    this.stopTimers();
    if (this.over || this.signal.aborted) return;
    this.logger.warn(`Lock ${this.grant.name} is lost: ${why}`);
    this.lost.abort(new LockLostError(this.grant.name, why));
  }

  private stopTimers(): void {
    clearTimeout(this.renewal);
    clearTimeout(this.end);
  }
}
