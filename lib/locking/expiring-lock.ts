import type { Duration } from '../message/duration';
import { resolveLockTimes, type ResolvedLockConfig } from './lock-config';
import type { LeaseEnd } from './lease-end';
import { LockHandleUsedError } from './lock-handle-used.error';
import type { LockHandle } from './lock-handle';
import type { Grant, LockStore } from './lock-store';

export interface ExpiringLockParts {
  readonly store: Pick<LockStore, 'extend' | 'release'>;
  readonly grant: Grant;
  readonly config: ResolvedLockConfig;
  /** Of the acquisition: the handles that extensions give share it. */
  readonly end: LeaseEnd;
  /** The signal's and the shutdown's together. */
  readonly signal: AbortSignal;
}

/** A handle of a lock that runs out unless it is extended by hand. */
export class ExpiringLock implements LockHandle {
  private use: 'unlock' | 'extend' | undefined;

  constructor(private readonly parts: ExpiringLockParts) {}

  get name(): string {
    return this.parts.config.name;
  }

  get fence(): bigint {
    return BigInt(this.parts.grant.fence);
  }

  get lockedUntil(): Date {
    return this.parts.grant.lockedUntil;
  }

  get signal(): AbortSignal {
    return this.parts.signal;
  }

  get held(): boolean {
    return !this.use && !this.parts.end.signal.aborted && !this.parts.grant.deadline.passed;
  }

  unlock(): Promise<boolean> {
    return this.once('unlock', async ({ store, grant, config, end }) => {
      const wasHeld = await store.release(grant, config.lockAtLeastFor);
      end.cancel();
      return wasHeld;
    });
  }

  extend(lockAtMostFor: Duration, lockAtLeastFor?: Duration): Promise<LockHandle | undefined> {
    return this.once('extend', async ({ store, grant, config, end }) => {
      const atMost = resolveLockTimes(lockAtMostFor).lockAtMostFor;
      const atLeast = lockAtLeastFor ?? Math.min(config.lockAtLeastFor, atMost);
      const times = resolveLockTimes(lockAtMostFor, atLeast);
      const next = await store.extend(grant, times.lockAtMostFor);
      if (!next) {
        end.lose('somebody else has taken it, or it was deleted, or it had run out');
        return undefined;
      }
      // The signal has fired meanwhile: whoever was told that it is over must not find it going on.
      if (end.signal.aborted) {
        await store.release(next);
        return undefined;
      }
      end.move(next.deadline);
      return new ExpiringLock({ ...this.parts, grant: next, config: { ...config, ...times } });
    });
  }

  private async once<T>(
    attempted: 'unlock' | 'extend',
    act: (parts: ExpiringLockParts) => Promise<T>,
  ): Promise<T> {
    if (this.use) {
      const why =
        this.use === 'unlock' ? 'it was unlocked' : 'it was extended; use the handle that extend() gave';
      throw new LockHandleUsedError(this.name, attempted, why);
    }
    this.use = attempted;
    try {
      return await act(this.parts);
    } catch (error) {
      // Nothing is known to have changed.
      this.use = undefined;
      throw error;
    }
  }
}
