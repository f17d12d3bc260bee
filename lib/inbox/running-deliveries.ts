import { setTimeout as delay } from 'node:timers/promises';
import { asPromise } from '../timing/as-promise';

/** What a rollback may still take after the deadline. Milliseconds. */
const GRACE = 1_000;

/** Every delivery that has come and has not been answered. */
export class RunningDeliveries {
  private readonly running = new Set<Promise<unknown>>();
  private readonly controller = new AbortController();

  get count(): number {
    return this.running.size;
  }

  /** @param work gets the signal that its time is over */
  track<T>(work: (abort: AbortSignal) => Promise<T>): Promise<T> {
    const promise = asPromise(() => work(this.controller.signal));
    this.running.add(promise);
    const forget = () => void this.running.delete(promise);
    promise.then(forget, forget);
    return promise;
  }

  /**
   * Waits until all are answered. When the time is over, handlers that still run are cut off: their transactions are rolled
   * back, and their messages go back to the broker.
   *
   * @param timeout milliseconds
   * @returns how many had to be cut off
   */
  async drain(timeout: number): Promise<number> {
    await this.settledWithin(timeout);
    const left = this.count;
    if (left > 0) {
      this.controller.abort();
      await this.settledWithin(GRACE);
    }
    return left;
  }

  private async settledWithin(timeout: number): Promise<void> {
    const deadline = new AbortController();
    const late = delay(timeout, undefined, { signal: deadline.signal }).catch(() => undefined);
    const settled = async () => {
      while (this.running.size > 0 && !deadline.signal.aborted) await Promise.allSettled([...this.running]);
    };
    await Promise.race([settled(), late]);
    deadline.abort();
  }
}
