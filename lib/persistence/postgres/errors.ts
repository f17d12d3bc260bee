/** SQLSTATEs after which the same transaction may simply be run again: serialization failure, deadlock. */
const RETRYABLE = new Set(['40001', '40P01']);

/**
 * Administrator's shutdown, crash of another backend, server starting up or shutting down, database dropped; and a session
 * that was ended because this process was paused in the middle of a transaction.
 */
const SERVER_GONE = new Set(['57P01', '57P02', '57P03', '57P04', '25P03']);

const NETWORK = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'ECONNABORTED',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EHOSTDOWN',
  'ENETDOWN',
  'ENOTFOUND',
  'EAI_AGAIN',
]);

/** Errors that pg, pg-pool and TypeORM throw without a code. */
const MESSAGES = [
  /^Connection terminated/,
  /^Client has encountered a connection error and is not queryable/,
  /^Client was closed and is not queryable/,
  /^timeout exceeded when trying to connect/,
  /^timeout expired$/,
  /^Cannot use a pool after calling end on the pool/,
  /^This socket has been ended by the other party/,
];

/** Names of errors for a runner or data source whose connection is gone: TypeORM's, and ours. */
const NAMES = new Set([
  'ConnectionLostError',
  'DatabaseUnansweredError',
  'QueryRunnerAlreadyReleasedError',
  'DriverOptionNotSetError',
  'ConnectionIsNotSetError',
  'CannotExecuteNotConnectedError',
]);

interface DatabaseError {
  readonly code?: unknown;
  readonly name?: unknown;
  readonly message?: unknown;
  readonly driverError?: unknown;
  readonly cause?: unknown;
  readonly errors?: unknown;
}

export const isRetryable = (error: unknown): boolean =>
  some(error, ({ code }) => RETRYABLE.has(String(code)));

export const isUniqueViolation = (error: unknown): boolean => some(error, ({ code }) => code === '23505');

/**
 * A network code counts on the error itself and on what TypeORM wraps, but not on a cause: `fetch failed`, caused by
 * ECONNREFUSED, is about a server of somebody else.
 */
export const isConnectionFault = (error: unknown): boolean =>
  some(
    error,
    ({ code, name, message }, isCause) =>
      (typeof code === 'string' &&
        (SERVER_GONE.has(code) || /^08...$/.test(code) || (NETWORK.has(code) && !isCause))) ||
      (typeof name === 'string' && NAMES.has(name)) ||
      (typeof message === 'string' && MESSAGES.some((pattern) => pattern.test(message))),
  );

type Test = (error: DatabaseError, isCause: boolean) => boolean;

/** Looks at the error and at what it wraps: TypeORM's `driverError`, the parts of an `AggregateError`, and causes. */
function some(error: unknown, test: Test, isCause = false, seen = new Set<unknown>()): boolean {
  if (typeof error !== 'object' || error === null || seen.has(error)) return false;
  seen.add(error);
  const { driverError, cause, errors } = error as DatabaseError;
  const parts = [driverError, ...(Array.isArray(errors) ? (errors as unknown[]) : [])];
  return (
    test(error, isCause) ||
    parts.some((part) => some(part, test, isCause, seen)) ||
    some(cause, test, true, seen)
  );
}
