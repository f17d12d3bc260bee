import type { HeldLock } from './held-lock';
import type { ResolvedLockConfig } from './lock-config';
import { LockHandleUsedError } from './lock-handle-used.error';
import type { LockHandle } from './lock-handle';

/** A handle of a lock that is kept alive until it is unlocked or lost. */
export class KeptLock implements LockHandle {
  private unlocked = false;

  /**
   * @param signal the lock's and the shutdown's together
   * @param ended called once the lock was given back
   */
  constructor(
    private readonly lock: HeldLock,
    private readonly config: ResolvedLockConfig,
    readonly signal: AbortSignal,
    private readonly ended: () => void,
  ) {}

  get name(): string {
    return this.config.name;
  }

  get fence(): bigint {
    return BigInt(this.lock.fence);
  }

  get lockedUntil(): Date {
    return this.lock.lockedUntil;
  }

  get held(): boolean {
    return this.lock.held;
  }

  async unlock(): Promise<boolean> {
    if (this.unlocked) throw new LockHandleUsedError(this.name, 'unlock', 'it was unlocked');
    this.unlocked = true;
    try {
      const wasHeld = await this.lock.unlock(this.config.lockAtLeastFor);
      this.ended();
      return wasHeld;
    } catch (error) {
      this.unlocked = false;
      throw error;
    }
  }

  extend(): Promise<never> {
    const why = this.unlocked ? 'it was unlocked' : 'with keepAlive the lock is renewed by itself';
    return Promise.reject(new LockHandleUsedError(this.name, 'extend', why));
  }
}
