import type { DataSource } from 'typeorm';
import {
  ON_DUPLICATE,
  ON_FAILURE,
  ON_MISSING_ID,
  type OnDuplicate,
  type OnFailure,
  type OnMissingId,
} from '../inbox-outbox.options';
import type { Duration } from '../message/duration';
import { InvalidOptionError } from '../message/invalid-option.error';
import { oneOf, timer } from '../message/option-checks';
import type { InboundMessage } from './inbound-message';

/** TypeORM's own type, which it does not export from its root. */
export type IsolationLevel = NonNullable<DataSource['options']['isolationLevel']>;

/**
 * Reads the id of a message. Empty, blank, `undefined` and `null` mean that it has none. The number 42 and the string
 * '42' are one id; a `bigint` is exact.
 */
export type MessageIdReader = (message: InboundMessage) => string | number | bigint | undefined | null;

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
  /**
   * Default: the module's, `'reject'`. See {@link OnFailure}. A handler that answers with golevelup's `Nack` has failed
   * too, and the `Nack`'s own `requeue` counts more than this option. golevelup's `errorHandler` and `errorBehavior` are
   * about what fails before the handler is reached (an undecodable body, a guard); without them this option is for that too.
   * With `'requeue'` each redelivery counts towards the module's `maxAttempts`, after which the message is dead.
   */
  onFailure?: OnFailure;
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
export interface ResolvedIdempotentOptions extends Omit<IdempotentOptions, 'timeout'> {
  readonly timeout?: number;
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
    onFailure: (value) => oneOf(name('onFailure'), value, ON_FAILURE),
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
  return resolved;
}

/** @throws {InvalidOptionError} unless it is one that databases know */
export function isolationLevelOf(option: string, value: unknown): IsolationLevel {
  return oneOf(option, value as IsolationLevel, ISOLATION_LEVELS);
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

function aFunction(option: string, value: unknown): unknown {
  if (typeof value !== 'function') throw new InvalidOptionError(option, value, 'a function of the message');
  return value;
}
