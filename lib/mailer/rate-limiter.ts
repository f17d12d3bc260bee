import { setTimeout as delay } from 'node:timers/promises';

/**
 * Lets pass so many a second, evenly spaced: no second has more, and none of what was saved up while idle leaves at once.
 * One for all that share a limit; those that wait pass in the order in which they came.
 */
export class RateLimiter {
  private readonly interval: number;
  /** Milliseconds on the monotonic clock, when the next may pass. */
  private next = 0;

  /** @param perSecond `Infinity` for no limit; may be a fraction */
  constructor(
    perSecond: number,
    private readonly now: () => number = () => performance.now(),
  ) {
    this.interval = 1_000 / perSecond;
  }

  /**
   * Waits for its turn. A turn that is given up is lost, which errs on the slow side.
   *
   * @throws the signal's reason, when that fires while it waits
   */
  async turn(signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    const turn = Math.max(this.now(), this.next);
    this.next = turn + this.interval;
    // A timer may fire a little early.
    for (let left = turn - this.now(); left > 0; left = turn - this.now()) {
      await delay(Math.ceil(left), undefined, { signal }).catch((error: unknown) => {
        signal?.throwIfAborted();
        throw error;
      });
    }
  }
}
