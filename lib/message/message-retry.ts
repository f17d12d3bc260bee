import { type BackoffOptions, checkBackoff, type ResolvedBackoffOptions } from './backoff';
import { InvalidMessageError } from './invalid-message.error';
import { InvalidOptionError } from './invalid-option.error';
import { attempts, known } from './option-checks';

/** The retry policy of one message. What it leaves out is as for all messages. */
export interface MessageRetryOptions {
  /** Attempts until the message is dead; `Infinity` for no limit. */
  maxAttempts?: number;
  backoff?: BackoffOptions;
}

/** {@link MessageRetryOptions} in milliseconds, and only what was given. */
export interface MessageRetry {
  readonly maxAttempts?: number;
  readonly backoff?: Partial<ResolvedBackoffOptions>;
}

/**
 * The policy as JSON text, for the row.
 *
 * @returns `null` for none, or for one that says nothing
 * @throws {InvalidMessageError} naming the field and its value
 */
export function encodeRetry(options: MessageRetryOptions | undefined): string | null {
  if (options === undefined) return null;
  const { maxAttempts, backoff } = inWordsOfMessages(() => check(options));
  const json = {
    // JSON has no Infinity.
    ...(maxAttempts !== undefined && { maxAttempts: maxAttempts === Infinity ? 'Infinity' : maxAttempts }),
    ...(backoff !== undefined && Object.keys(backoff).length > 0 && { backoff }),
  };
  return Object.keys(json).length === 0 ? null : JSON.stringify(json);
}

/**
 * @returns an empty policy for `null`
 * @throws Error for text that was not made by {@link encodeRetry}
 */
export function decodeRetry(text: string | null): MessageRetry {
  if (text === null) return {};
  const { maxAttempts, ...rest } = JSON.parse(text) as Omit<MessageRetryOptions, 'maxAttempts'> & {
    maxAttempts?: number | string;
  };
  return check({ ...rest, maxAttempts: maxAttempts === 'Infinity' ? Infinity : (maxAttempts as number) });
}

function check(options: MessageRetryOptions): MessageRetry {
  known('retry.', options, ['maxAttempts', 'backoff']);
  const { maxAttempts, backoff } = options;
  return {
    ...(maxAttempts !== undefined && { maxAttempts: attempts('retry.maxAttempts', maxAttempts) }),
    ...(backoff !== undefined && { backoff: checkBackoff('retry.backoff.', backoff) }),
  };
}

function inWordsOfMessages<T>(work: () => T): T {
  try {
    return work();
  } catch (cause) {
    if (!(cause instanceof InvalidOptionError)) throw cause;
    throw new InvalidMessageError(cause.option, cause.value, `Give ${cause.expected}`, { cause });
  }
}
