import type { Duration } from '../message/duration';

/** A lock as seen by the work that is done under it. */
export interface LockContext {
  readonly name: string;
  /**
   * Grows with every take-over of the lock by this module. Whoever stores something outside of the database can refuse
   * a fence that is lower than the last one it saw, and thus a holder that slept beyond its time. `String(fence)` for JSON.
   */
  readonly fence: bigint;
  /** When the lock runs out on the database's clock, as last granted. To show it to people; act by `signal` and `held`. */
  readonly lockedUntil: Date;
  /**
   * Aborts when the lock is lost, when its time is nearly over (a tenth of it, at most 1 s, before the database's end), and
   * when the application shuts down. The reason says which; {@link LockLostError} but for the shutdown.
   */
  readonly signal: AbortSignal;
  /** Whether the holder may still act at this moment: not unlocked, not lost, time left. */
  readonly held: boolean;
}

/** A lock that was taken. Each handle is good for one `unlock()` or one `extend()`. */
export interface LockHandle extends LockContext {
  /**
   * Gives the lock back: at once, or when `lockAtLeastFor` is over. When the database does not answer the handle stays
   * good, and the lock runs out by itself.
   *
   * @returns whether it was held until now; false when it had run out or somebody else has it: it is then left alone
   * @throws {LockHandleUsedError} after an `unlock()` or `extend()` of this handle
   */
  unlock(): Promise<boolean>;

  /**
   * Holds it for this much longer from now. The signal goes on as that of the new handle.
   *
   * @param lockAtMostFor from now
   * @param lockAtLeastFor from when the lock was first taken; default: as it was taken with, if that is not longer than
   *   the new `lockAtMostFor`
   * @returns the handle to go on with, or `undefined` when the lock is lost; an expired lock stays lost
   * @throws {LockHandleUsedError} after an `unlock()` or `extend()` of this handle, and with `keepAlive`
   * @throws {InvalidOptionError} naming a bad duration
   */
  extend(lockAtMostFor: Duration, lockAtLeastFor?: Duration): Promise<LockHandle | undefined>;
}
