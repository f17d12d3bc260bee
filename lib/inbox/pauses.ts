import { setTimeout as delay } from 'node:timers/promises';
import { ShuttingDownError } from '../transaction/shutting-down.error';

/**
 * Waiting that ends with the application: a delivery that is held back (the database is away, or it must not come again at
 * once) is handed back to the broker instead of keeping the process alive.
 */
export class Pauses {
  private readonly controller = new AbortController();

  /** Fires with `stop()`. */
  get stopping(): AbortSignal {
    return this.controller.signal;
  }

  get isStopping(): boolean {
    return this.controller.signal.aborted;
  }

  /** @throws {ShuttingDownError} once `stop()` was called */
  assertRunning(): void {
    if (this.isStopping) throw new ShuttingDownError();
  }

  /**
   * @param milliseconds how long
   * @throws {ShuttingDownError} as soon as `stop()` is called
   */
  async wait(milliseconds: number): Promise<void> {
    try {
      await delay(milliseconds, undefined, { signal: this.controller.signal });
    } catch {
      throw new ShuttingDownError();
    }
  }

  stop(): void {
    this.controller.abort();
  }
}

/**
 * The pause before another try: doubles with each, with a random quarter taken off so that many do not come back together.
 *
 * @param tries how many there were, from 1
 * @param first milliseconds before the second try
 * @param longest milliseconds
 */
export function pauseAfter(tries: number, first: number, longest: number): number {
  const full = Math.min(longest, first * 2 ** Math.min(tries - 1, 30));
  return full * (1 - Math.random() / 4);
}
