import type { LoggerService } from '@nestjs/common';
import type { Deadline } from './deadline';
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
  private released: Promise<void> | undefined;

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

  /** Until when this process may rely on the lock. */
  get deadline(): Deadline {
    return this.grant.deadline;
  }

  /** Whether this process may act as the holder at this moment. */
  get held(): boolean {
    return !this.released && !this.lost.signal.aborted && !this.grant.deadline.passed;
  }

  /** Gives the lock back. May be called twice; never rejects: a lock that cannot be released runs out by itself. */
  release(atLeastFor = 0): Promise<void> {
    this.released ??= this.giveBack(atLeastFor);
    return this.released;
  }

  private async giveBack(atLeastFor: number): Promise<void> {
    this.stopTimers();
    // An extension under way must not come after the release.
    await this.extending;
    try {
      await this.store.release(this.grant, atLeastFor);
    } catch (error) {
      this.logger.warn(`Lock ${this.grant.name} could not be released and will run out: ${String(error)}`);
    }
  }

  private schedule(): void {
    this.stopTimers();
    this.renewal = setTimeout(() => this.renew(), this.lease / 3).unref();
    this.end = setTimeout(() => this.lose('its time ran out'), this.deadline.remaining).unref();
  }

  private renew(): void {
    if (this.wanted()) this.extending = this.extend();
    else void this.release();
  }

  private async extend(): Promise<void> {
    try {
      const grant = await this.store.extend(this.grant, this.lease);
      if (this.released || this.signal.aborted) return;
      if (!grant) return this.lose('somebody else has taken it, or it was deleted');
      this.grant = grant;
      this.schedule();
    } catch (error) {
      if (this.released || this.signal.aborted) return;
      this.logger.warn(`Lock ${this.grant.name} could not be extended: ${String(error)}`);
      this.renewal = setTimeout(() => this.renew(), this.lease / 10).unref();
    }
  }

  private lose(why: string): void {
    this.stopTimers();
    if (this.released || this.signal.aborted) return;
    this.logger.warn(`Lock ${this.grant.name} is lost: ${why}`);
    this.lost.abort(new Error(`Lock ${this.grant.name} is lost: ${why}`));
  }

  private stopTimers(): void {
    clearTimeout(this.renewal);
    clearTimeout(this.end);
  }
}
