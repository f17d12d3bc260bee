import ms from 'ms';
import { backoffDelay, type ResolvedBackoffOptions } from './backoff';
import { InvalidOptionError } from './invalid-option.error';

/** How long messages are remembered, and how long they have to be. Milliseconds. */
export interface RetentionTerms {
  readonly retention: number;
  readonly redeliveryHorizon: number;
}

/** How often a message is tried. */
export interface RetryTerms {
  readonly maxAttempts: number;
  readonly backoff: ResolvedBackoffOptions;
}

/** Milliseconds from the first run of a message to its last, the runs themselves not counted; 0 when there is no last one. */
export function retryHorizon({ maxAttempts, backoff }: RetryTerms): number {
  // What is never given up is never forgotten either: only what is done is cleaned.
  if (maxAttempts === Infinity) return 0;
  let horizon = 0;
  for (let attempt = 1; attempt < maxAttempts; attempt++) {
    horizon += backoffDelay(attempt, { ...backoff, jitter: 0 });
  }
  return horizon;
}

/**
 * Forgetting a message while it may still come again would double its effect.
 *
 * @param retrySource the options that the retries come from, for the error
 * @throws {InvalidOptionError} naming the retention and what it is too short for
 */
export function checkRetention(
  { retention, redeliveryHorizon }: RetentionTerms,
  retry: RetryTerms,
  retrySource: string,
): void {
  const needed = [
    ['a minute', 60_000],
    [`inbox.redeliveryHorizon, which is ${named(redeliveryHorizon)}`, redeliveryHorizon],
    [
      `what all runs of a message take by ${retrySource}, which is ${named(retryHorizon(retry))}`,
      retryHorizon(retry),
    ],
  ] as const;
  for (const [what, length] of needed) {
    if (retention >= length) continue;
    throw new InvalidOptionError(
      'inbox.retention',
      named(retention),
      `at least ${what}: a copy that comes after the message was forgotten takes effect a second time`,
    );
  }
}

function named(milliseconds: number): string {
  return `${ms(milliseconds)} (${milliseconds} ms)`;
}
