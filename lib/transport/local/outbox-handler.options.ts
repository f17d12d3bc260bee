import type { Duration } from '../../message/duration';
import { InvalidMessageError } from '../../message/invalid-message.error';
import { InvalidOptionError } from '../../message/invalid-option.error';
import { encodeRetry, type MessageRetryOptions } from '../../message/message-retry';
import { integer, known, oneOf, timer } from '../../message/option-checks';
import type { IsolationLevel } from '../../transaction/transaction-scope';

/** Options of one `@OutboxHandler()` method. */
export interface OutboxHandlerOptions {
  /**
   * True (default): each run is a transaction whose first statement marks the message as done, and which everything that
   * uses the data source joins; what the handler writes takes effect exactly once. False, for e-mails, HTTP calls and other
   * work outside of the database: no transaction is held, and the message is settled after the handler has returned; a
   * process that dies in between makes it run again, with the same `messageId`.
   */
  transactional?: boolean;
  /** Runs of this handler at once in this process, 1 to 10,000. Default: as many as `outbox.maxConcurrentHandlers`. */
  concurrency?: number;
  /**
   * How long one run may take; the context's `signal` is aborted then. A transactional run is rolled back and has failed. One
   * that is not is waited for until it returns: it is never begun again while it still runs. Default: no limit.
   */
  timeout?: Duration;
  /** Attempts and pauses of messages that `enqueue()` gave no `retry` of their own. Default: the module's. */
  retry?: MessageRetryOptions;
  /** Isolation level of the transaction. Default: the data source's. Not with `transactional: false`. */
  isolationLevel?: IsolationLevel;
  /** Name of the data source whose outbox is meant. Default: the default one, or the only one that is registered. */
  dataSource?: string;
}

/** Checked, defaults filled in; durations are milliseconds. */
export interface ResolvedOutboxHandlerOptions {
  readonly transactional: boolean;
  readonly concurrency: number | undefined;
  readonly timeout: number | undefined;
  /** As a row has it. */
  readonly retry: string | null;
  readonly isolationLevel: IsolationLevel | undefined;
  readonly dataSource: string | undefined;
}

const ISOLATION_LEVELS: readonly IsolationLevel[] = [
  'READ UNCOMMITTED',
  'READ COMMITTED',
  'REPEATABLE READ',
  'SERIALIZABLE',
];

/** What the row's column holds. */
const MAX_NAME_BYTES = 255;

/**
 * @param owner class and method, for the error
 * @throws {InvalidOptionError} naming the option and its value
 */
export function resolveOutboxHandlerOptions(
  options: OutboxHandlerOptions,
  owner: string,
): ResolvedOutboxHandlerOptions {
  const path = `@OutboxHandler(${owner}).`;
  known(path, options, ['transactional', 'concurrency', 'timeout', 'retry', 'isolationLevel', 'dataSource']);
  const { transactional = true, concurrency, timeout, retry, isolationLevel, dataSource } = options;
  oneOf(`${path}transactional`, transactional, [true, false]);
  if (isolationLevel !== undefined) {
    oneOf(`${path}isolationLevel`, isolationLevel, ISOLATION_LEVELS);
    if (!transactional) {
      throw new InvalidOptionError(
        `${path}isolationLevel`,
        isolationLevel,
        'no isolation level, since with transactional: false there is no transaction',
      );
    }
  }
  return {
    transactional,
    concurrency:
      concurrency === undefined ? undefined : integer(`${path}concurrency`, concurrency, 1, 10_000),
    timeout: timeout === undefined ? undefined : timer(`${path}timeout`, timeout, 1),
    retry: checkedRetry(path, retry),
    isolationLevel,
    dataSource: dataSource === undefined ? undefined : checkedName(`${path}dataSource`, dataSource),
  };
}

function checkedRetry(path: string, retry: MessageRetryOptions | undefined): string | null {
  try {
    return encodeRetry(retry);
  } catch (error) {
    if (!(error instanceof InvalidMessageError) || !(error.cause instanceof InvalidOptionError)) throw error;
    const { option, value, expected } = error.cause;
    throw new InvalidOptionError(`${path}${option}`, value, expected);
  }
}

/** @throws {InvalidOptionError} unless `enqueue()` can address the handler by it */
export function checkHandlerName(owner: string, name: unknown): string {
  return checkedName(`@OutboxHandler(${owner})`, name);
}

function checkedName(option: string, name: unknown): string {
  const fits =
    typeof name === 'string' &&
    name.trim() !== '' &&
    Buffer.byteLength(name) <= MAX_NAME_BYTES &&
    !/[\0\p{Surrogate}]/u.test(name);
  if (!fits) {
    throw new InvalidOptionError(option, name, `a name of at most ${MAX_NAME_BYTES} bytes that is not blank`);
  }
  return name;
}
