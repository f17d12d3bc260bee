import type { ResolvedBackoffOptions } from '../inbox-outbox.options';

/** When a message that has failed is tried again. */
export interface RetryPolicy {
  /**
   * @param attempts how often it has failed so far, 1 or more
   * @returns milliseconds until the next attempt, or `'dead'` when there is none
   */
  next(attempts: number): number | 'dead';
}

/**
 * Exponential backoff: `initialDelay × factor^(attempts − 1)`, at most `maxDelay`, less a random share of up to `jitter`,
 * so that what failed together does not come back together. Never above the cap and never negative, at attempt 1,100 too,
 * where the power alone is infinite.
 *
 * @param maxAttempts attempts until it is dead; `Infinity` for no limit
 * @param random for tests: 0 up to but not including 1
 */
export function createRetryPolicy(
  maxAttempts: number,
  backoff: ResolvedBackoffOptions,
  random: () => number = Math.random,
): RetryPolicy {
  return {
    next: (attempts) => (attempts >= maxAttempts ? 'dead' : backoffDelay(attempts, backoff, random)),
  };
}

/** Milliseconds of pause after the given number of failures; see {@link createRetryPolicy}. */
export function backoffDelay(
  attempts: number,
  { initialDelay, factor, maxDelay, jitter }: ResolvedBackoffOptions,
  random: () => number = Math.random,
): number {
  const power = factor ** Math.max(0, attempts - 1);
  // 0 × Infinity is NaN.
  const delay = initialDelay === 0 ? 0 : Math.min(initialDelay * power, maxDelay);
  return Math.round(delay * (1 - jitter * random()));
}
