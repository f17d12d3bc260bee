import type { LoggerService } from '@nestjs/common';
import { backoffDelay, type BackoffFunction, DEFAULT_BACKOFF, type ResolvedBackoffOptions } from './backoff';
import { toMilliseconds } from './duration';
import { decodeRetry, type MessageRetry } from './message-retry';
import { NonRetryableError } from './non-retryable.error';
import { thrownText } from './thrown-text';

/** When a message that has failed is tried again. */
export interface RetryPolicy {
  /**
   * @param attempts how often it has failed so far, 1 or more
   * @param error what the last attempt failed with
   * @param own the policy of the message itself, as its row has it
   * @returns milliseconds until the next attempt, or `'dead'` when there is none
   */
  next(attempts: number, error?: unknown, own?: string | null): number | 'dead';
}

/** Asked after each failure; false means that the message is dead at once. */
export type RetryIf = (error: unknown) => boolean;

export interface RetryPolicyParts {
  readonly retryIf?: RetryIf;
  /** Told when the application's own functions fail. Must not throw. */
  readonly logger?: Pick<LoggerService, 'error'>;
  /** For tests: 0 up to but not including 1. */
  readonly random?: () => number;
}

/** Milliseconds. A function that fails for one message fails for thousands. */
const COMPLAINT_INTERVAL = 60_000;

/**
 * 1. A {@link NonRetryableError}, or a `retryIf` that says false: dead.
 * 2. As many attempts as allowed, by the message's own policy or else by the one for all: dead.
 * 3. Otherwise a pause: exponential, at most the cap, less a random share, so that what failed together does not come back
 *    together; or what the application's own function says.
 *
 * Functions of the application decide nothing by failing: then the message is tried again, after the default pause.
 *
 * @param maxAttempts attempts until it is dead; `Infinity` for no limit
 */
export function createRetryPolicy(
  maxAttempts: number,
  backoff: ResolvedBackoffOptions | BackoffFunction,
  { retryIf, logger, random }: RetryPolicyParts = {},
): RetryPolicy {
  const told = new Map<string, number>();
  const complain = (about: string, error: unknown) => {
    const last = told.get(about);
    if (last !== undefined && performance.now() - last < COMPLAINT_INTERVAL) return;
    told.set(about, performance.now());
    logger?.error(`${about}: ${thrownText(error)}`);
  };

  const mayRetry = (error: unknown): boolean => {
    if (error instanceof NonRetryableError) return false;
    if (!retryIf) return true;
    try {
      const answer: unknown = settleSilently(retryIf(error));
      if (typeof answer === 'boolean') return answer;
      complain('The retryIf of the outbox gave no boolean; the message is tried again', answer);
    } catch (thrown) {
      complain('The retryIf of the outbox failed; the message is tried again', thrown);
    }
    return true;
  };

  const ownPolicy = (text: string | null): MessageRetry => {
    try {
      return decodeRetry(text);
    } catch (error) {
      complain("A message's own retry policy cannot be read; the one for all is taken", error);
      return {};
    }
  };

  const pause = (attempts: number, error: unknown, own: MessageRetry['backoff']): number => {
    if (own || typeof backoff !== 'function') {
      const base = typeof backoff === 'function' ? DEFAULT_BACKOFF : backoff;
      return backoffDelay(attempts, { ...base, ...own }, random);
    }
    try {
      return toMilliseconds('outbox.backoff()', settleSilently(backoff(attempts, error)));
    } catch (thrown) {
      complain('The backoff function of the outbox failed; the default pause is taken', thrown);
      return backoffDelay(attempts, DEFAULT_BACKOFF, random);
    }
  };

  return {
    next(attempts, error, own = null) {
      if (!mayRetry(error)) return 'dead';
      const policy = ownPolicy(own);
      return attempts >= (policy.maxAttempts ?? maxAttempts)
        ? 'dead'
        : pause(attempts, error, policy.backoff);
    },
  };
}

/** A function that is async by mistake: its rejection must not end the process. */
function settleSilently<T>(answer: T): T {
  if (answer instanceof Promise) answer.catch(() => undefined);
  return answer;
}
