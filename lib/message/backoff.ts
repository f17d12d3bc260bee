import { toMilliseconds, type Duration } from './duration';
import { known, number } from './option-checks';

/** The pause before attempt n + 1 is `initialDelay × factor^(n−1)`, at most `maxDelay`, less a random share. */
export interface BackoffOptions {
  /** Default `'1s'`. */
  initialDelay?: Duration;
  /** 1 or more. Default 2. */
  factor?: number;
  /** Default `'1h'`. */
  maxDelay?: Duration;
  /** Share of the pause that is random, 0 to 1. Default 0.2. */
  jitter?: number;
}

/**
 * A pause of one's own. When it throws, or gives what is no duration, that is logged and the default pause is taken.
 *
 * @param attempts how often the message has failed so far, 1 or more
 * @param error what the last attempt failed with
 */
export type BackoffFunction = (attempts: number, error: unknown) => Duration;

export interface ResolvedBackoffOptions {
  readonly initialDelay: number;
  readonly factor: number;
  readonly maxDelay: number;
  readonly jitter: number;
}

export const DEFAULT_BACKOFF: ResolvedBackoffOptions = {
  initialDelay: 1_000,
  factor: 2,
  maxDelay: 3_600_000,
  jitter: 0.2,
};

/** @throws {InvalidOptionError} naming the option and its value */
export function resolveBackoff(path: string, options: BackoffOptions): ResolvedBackoffOptions {
  return { ...DEFAULT_BACKOFF, ...checkBackoff(path, options) };
}

/**
 * In milliseconds, and only what was given.
 *
 * @throws {InvalidOptionError} naming the option and its value
 */
export function checkBackoff(path: string, options: BackoffOptions): Partial<ResolvedBackoffOptions> {
  known(path, options, ['initialDelay', 'factor', 'maxDelay', 'jitter']);
  const { initialDelay, factor, maxDelay, jitter } = options;
  return {
    ...(initialDelay !== undefined && { initialDelay: toMilliseconds(`${path}initialDelay`, initialDelay) }),
    ...(factor !== undefined && { factor: number(`${path}factor`, factor, 1, 1_000) }),
    ...(maxDelay !== undefined && { maxDelay: toMilliseconds(`${path}maxDelay`, maxDelay) }),
    ...(jitter !== undefined && { jitter: number(`${path}jitter`, jitter, 0, 1) }),
  };
}

/**
 * Milliseconds of pause after the given number of failures. Never above the cap and never negative, at attempt 1,100 too,
 * where the power alone is infinite.
 *
 * @param random for tests: 0 up to but not including 1
 */
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
