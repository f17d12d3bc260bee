import { QueryFailedError, QueryRunnerAlreadyReleasedError } from 'typeorm';
import { isConnectionFault, isRetryable, isUniqueViolation } from '../../../lib/persistence/postgres/errors';

const failed = (error: Error) => new QueryFailedError('SELECT 1', [], error);
const coded = (code: string, message = 'x') => Object.assign(new Error(message), { code });

describe('Errors of PostgreSQL', () => {
  it.each(['40001', '40P01'])('%s means: run it again', (code) => {
    expect(isRetryable(coded(code))).toBe(true);
    expect(isRetryable(failed(coded(code)))).toBe(true);
    expect(isRetryable(new Error('in a handler', { cause: failed(coded(code)) }))).toBe(true);
    expect(isConnectionFault(failed(coded(code)))).toBe(false);
  });

  it.each(['57P01', '57P02', '57P03', '08006', '08003', 'ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ETIMEDOUT'])(
    '%s means: the connection',
    (code) => {
      expect(isConnectionFault(coded(code))).toBe(true);
      expect(isConnectionFault(failed(coded(code)))).toBe(true);
      expect(isConnectionFault(new AggregateError([coded(code)]))).toBe(true);
      expect(isRetryable(failed(coded(code)))).toBe(false);
    },
  );

  it.each([
    'Connection terminated',
    'Connection terminated unexpectedly',
    'Connection terminated due to connection timeout',
    'Client has encountered a connection error and is not queryable',
    'timeout exceeded when trying to connect',
    'Cannot use a pool after calling end on the pool',
  ])('"%s" means: the connection', (message) => {
    expect(isConnectionFault(new Error(message))).toBe(true);
    expect(isConnectionFault(failed(new Error(message)))).toBe(true);
  });

  it('knows the errors of a runner whose connection is gone', () => {
    expect(isConnectionFault(new QueryRunnerAlreadyReleasedError())).toBe(true);
  });

  it("does not take another server's fault for its own", () => {
    expect(isConnectionFault(new TypeError('fetch failed', { cause: coded('ECONNREFUSED') }))).toBe(false);
  });

  it.each([undefined, null, 'text', 1, {}, new Error('x'), failed(coded('23505')), failed(coded('57014'))])(
    'has nothing to say about %p',
    (error) => {
      expect(isRetryable(error)).toBe(false);
      expect(isConnectionFault(error)).toBe(false);
    },
  );

  it('does not go round in circles', () => {
    const error = new Error('a') as Error & { cause: unknown };
    error.cause = error;
    expect(isRetryable(error)).toBe(false);
  });

  it('knows a unique violation', () => {
    expect(isUniqueViolation(failed(coded('23505')))).toBe(true);
    expect(isUniqueViolation(failed(coded('23503')))).toBe(false);
  });
});
