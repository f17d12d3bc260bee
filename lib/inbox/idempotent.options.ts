import { type OnDuplicate, type OnFailure, type OnMissingId, type Processing } from '../inbox-outbox.options';
import { ON_DUPLICATE, ON_FAILURE, ON_MISSING_ID, PROCESSING } from '../resolved-options';
import { checkBackoff, type BackoffOptions, type ResolvedBackoffOptions } from '../message/backoff';
import type { Duration } from '../message/duration';
import { InvalidOptionError } from '../message/invalid-option.error';
import { attempts, known, oneOf, timer } from '../message/option-checks';
import type { IsolationLevel } from '../transaction/transaction-scope';
import type { FingerprintReader } from './content-hash';
import type { InboundMessage } from './inbound-message';

/**
 * Reads the id of a message. Empty, blank, `undefined` and `null` mean that it has none. The number 42 and the string
 * '42' are one id; a `bigint` is exact.
 */
export type MessageIdReader = (message: InboundMessage) => string | number | bigint | undefined | null;

/**
 * Reads the ordering key of a message, at most 255 bytes. Empty, `undefined` and `null` mean that it has none. Give the second
 * parameter the payload's type: `(_message, claim: ClaimReported) => claim.number`.
 *
 * @param payload decoded as for the handler, before any pipe
 */
export type OrderingKeyReader = (message: InboundMessage, payload: never) => string | undefined | null;

/** When a message that has failed is handled again. What is left out comes from the module's `inbox` options. */
export interface HandlerRetryOptions {
  /** Runs until the message is dead; `Infinity` for no limit. */
  maxAttempts?: number;
  backoff?: BackoffOptions;
}

/** Options of one `@Idempotent()` handler. What is left out comes from the module's `inbox` options. */
export interface IdempotentOptions {
  /**
   * Under which name this handler remembers its messages, at most 255 bytes. Default `Class.method`, with the concrete
   * class where the method is inherited. Renaming the class or the method, or minifying the code, makes it a new consumer
   * that remembers nothing: name it where that can happen.
   */
  consumer?: string;
  /** Default: the AMQP property `messageId`. */
  messageId?: MessageIdReader;
  /** Default: the module's, `'reject'`. See {@link OnMissingId}. */
  onMissingId?: OnMissingId;
  /** Default: the module's, `'skip'`. See {@link OnDuplicate}. */
  onDuplicate?: OnDuplicate;
  /** Default: the module's, `'inline'`. RPC handlers are always inline. See {@link Processing}. */
  processing?: Processing;
  /**
   * Messages of one key are handled one at a time. What the inbox table holds is handled in the order of storing, and a
   * message whose key has an open one there is stored behind it. A dead one lets its key go on. Default: no order.
   *
   * With `processing: 'inline'` the order is that of one process: several that consume from one queue get its messages side
   * by side from the broker already (a single active consumer does not).
   */
  orderingKey?: OrderingKeyReader;
  /** With `onFailure: 'retry'` and `'requeue'`. */
  retry?: HandlerRetryOptions;
  /**
   * Default: the module's, `'retry'`; for RPC `'reply'`; what is handled deferred is always retried. See {@link OnFailure}. A
   * handler that answers with golevelup's `Nack` has failed too, and the `Nack`'s own `requeue` counts more than this option.
   * golevelup's `errorHandler` and `errorBehavior` are about what fails before the handler is reached (an undecodable body, a
   * guard). Without them this option is for a guard too, and a body that cannot be decoded is kept as dead.
   */
  onFailure?: OnFailure;
  /**
   * Whether a hash of each message's content is kept. Then other content under a known id is not taken for a duplicate but kept
   * as dead, and the same content under a new id is reported. A function says what counts as the content; `true`: the body.
   * Default: the module's, false.
   */
  fingerprint?: boolean | FingerprintReader;
  /**
   * RPC handlers with `onFailure: 'reply'`: makes the reply to a request that has failed. Default: an {@link RpcErrorReply}
   * with the error's name and message, and nothing else of it.
   */
  errorReply?: (error: unknown) => unknown;
  /**
   * How long the handler may take before it is rolled back and has failed; `InboxContext.signal` is aborted then. Default:
   * the module's, no limit.
   */
  timeout?: Duration;
  /**
   * Isolation level of the handler's transaction. Default: the data source's. Refused where the delivery is handled inside
   * a transaction of the application that was opened with another level.
   */
  isolationLevel?: IsolationLevel;
  /** Name of the data source whose inbox is used. Default: the default one, or the only one that is registered. */
  dataSource?: string;
}

/** Checked; durations are milliseconds. */
export interface ResolvedIdempotentOptions extends Omit<IdempotentOptions, 'timeout' | 'retry'> {
  readonly timeout?: number;
  readonly retry?: {
    readonly maxAttempts?: number;
    readonly backoff?: Partial<ResolvedBackoffOptions>;
  };
}

/** The width of the key columns, and what AMQP allows for a message id. */
export const MAX_KEY_BYTES = 255;

const ISOLATION_LEVELS: readonly IsolationLevel[] = [
  'READ UNCOMMITTED',
  'READ COMMITTED',
  'REPEATABLE READ',
  'SERIALIZABLE',
];

/**
 * @param owner class and method, for the error
 * @throws {InvalidOptionError} naming the option and its value
 */
export function resolveIdempotentOptions(
  options: IdempotentOptions,
  owner: string,
): ResolvedIdempotentOptions {
  const name = (option: string) => `@Idempotent(${owner}).${option}`;
  if (typeof options !== 'object' || options === null) {
    throw new InvalidOptionError(`@Idempotent(${owner})`, options, 'an object');
  }
  const checks: { [Option in keyof Required<IdempotentOptions>]: (value: unknown) => unknown } = {
    consumer: (value) => consumerName(name('consumer'), value),
    messageId: (value) => aFunction(name('messageId'), value),
    onMissingId: (value) => oneOf(name('onMissingId'), value, ON_MISSING_ID),
    onDuplicate: (value) => oneOf(name('onDuplicate'), value, ON_DUPLICATE),
    processing: (value) => oneOf(name('processing'), value, PROCESSING),
    orderingKey: (value) => aFunction(name('orderingKey'), value),
    retry: (value) => handlerRetry(name('retry'), value as HandlerRetryOptions),
    onFailure: (value) => oneOf(name('onFailure'), value as OnFailure, [...ON_FAILURE, 'reply']),
    fingerprint: (value) => fingerprint(name('fingerprint'), value),
    errorReply: (value) => aFunction(name('errorReply'), value, 'a function of the error'),
    timeout: (value) => timer(name('timeout'), value as Duration, 1),
    isolationLevel: (value) => isolationLevelOf(name('isolationLevel'), value),
    dataSource: (value) => aName(name('dataSource'), value),
  };
  const resolved: Record<string, unknown> = {};
  for (const [option, value] of Object.entries(options)) {
    if (!Object.hasOwn(checks, option)) {
      throw new InvalidOptionError(
        name(option),
        value,
        `one of the options ${Object.keys(checks).join(', ')}`,
      );
    }
    // Spelt out as undefined is the same as left out.
    if (value !== undefined) resolved[option] = checks[option as keyof IdempotentOptions](value);
  }
  refuseContradictions(resolved, name);
  return resolved;
}

/** @throws {InvalidOptionError} unless it is one that databases know */
export function isolationLevelOf(option: string, value: unknown): IsolationLevel {
  return oneOf(option, value as IsolationLevel, ISOLATION_LEVELS);
}

/** What is acked before it is handled cannot go back to the broker, and a copy of it is not there any more to be handled. */
function refuseContradictions(options: ResolvedIdempotentOptions, name: (option: string) => string): void {
  const { processing, onFailure, onDuplicate } = options;
  if (processing !== 'deferred') return;
  if (onFailure !== undefined && onFailure !== 'retry') {
    throw new InvalidOptionError(
      name('onFailure'),
      onFailure,
      "'retry' with processing: 'deferred', since the message is acked before it is handled",
    );
  }
  if (onDuplicate === 'pass') {
    throw new InvalidOptionError(name('onDuplicate'), onDuplicate, "'skip' with processing: 'deferred'");
  }
}

function handlerRetry(path: string, options: HandlerRetryOptions): ResolvedIdempotentOptions['retry'] {
  known(`${path}.`, options, ['maxAttempts', 'backoff']);
  const { maxAttempts, backoff } = options;
  return {
    ...(maxAttempts !== undefined && { maxAttempts: attempts(`${path}.maxAttempts`, maxAttempts) }),
    ...(backoff !== undefined && { backoff: checkBackoff(`${path}.backoff.`, backoff) }),
  };
}

/** @throws {InvalidOptionError} unless it can be a key of the inbox table as it is */
export function consumerName(option: string, value: unknown): string {
  const expected = `a name of at most ${MAX_KEY_BYTES} bytes that is not blank`;
  const name = aName(option, value, expected);
  if (Buffer.byteLength(name) > MAX_KEY_BYTES || name.includes('\0')) {
    throw new InvalidOptionError(option, value, expected);
  }
  return name;
}

function aName(option: string, value: unknown, expected = 'a name that is not blank'): string {
  if (typeof value !== 'string' || value.trim() === '') throw new InvalidOptionError(option, value, expected);
  return value;
}

function aFunction(option: string, value: unknown, expected = 'a function of the message'): unknown {
  if (typeof value !== 'function') throw new InvalidOptionError(option, value, expected);
  return value;
}

function fingerprint(option: string, value: unknown): unknown {
  if (typeof value !== 'boolean' && typeof value !== 'function') {
    throw new InvalidOptionError(option, value, 'true, false or a function of the message');
  }
  return value;
}
