import { DEFAULT_BACKOFF, backoffDelay, type BackoffFunction } from '../../../lib/message/backoff';
import { NonRetryableError } from '../../../lib/message/non-retryable.error';
import { createRetryPolicy } from '../../../lib/message/retry-policy';

const backoff = { initialDelay: 1_000, factor: 2, maxDelay: 3_600_000, jitter: 0 };

function listener() {
  const lines: string[] = [];
  return { lines, logger: { error: (line: string) => void lines.push(line) } };
}

describe('The retry policy', () => {
  it('doubles the pause up to its cap', () => {
    const policy = createRetryPolicy(Infinity, backoff);
    expect([1, 2, 3, 12, 13, 14].map((attempts) => policy.next(attempts))).toEqual([
      ...[1_000, 2_000, 4_000, 2_048_000],
      ...[3_600_000, 3_600_000],
    ]);
  });

  it('gives up after the last attempt', () => {
    const policy = createRetryPolicy(3, backoff);
    expect([1, 2, 3, 4].map((attempts) => policy.next(attempts))).toEqual([1_000, 2_000, 'dead', 'dead']);
  });

  it('gives up at once after a NonRetryableError and its subclasses, and when retryIf says false', () => {
    class AddressUnknown extends NonRetryableError {}
    const policy = createRetryPolicy(3, backoff, {
      retryIf: (error) => !(error instanceof RangeError),
    });
    expect(policy.next(1, new NonRetryableError('no such order'))).toBe('dead');
    expect(policy.next(1, new AddressUnknown('nobody there'))).toBe('dead');
    expect(policy.next(1, new RangeError('too far'))).toBe('dead');
    expect(policy.next(1, new Error('try again'))).toBe(1_000);
  });

  it("a message's own policy wins over the one for all, in what it says", () => {
    const policy = createRetryPolicy(3, backoff);
    expect(policy.next(3, undefined, '{"maxAttempts":4}')).toBe(4_000);
    expect(policy.next(4, undefined, '{"maxAttempts":4}')).toBe('dead');
    expect(policy.next(1, undefined, '{"maxAttempts":1}')).toBe('dead');
    expect(policy.next(1_000, undefined, '{"maxAttempts":"Infinity"}')).toBe(3_600_000);
    expect(policy.next(2, undefined, '{"backoff":{"initialDelay":5,"factor":3}}')).toBe(15);
    expect(policy.next(3, undefined, '{"backoff":{"initialDelay":5}}')).toBe('dead');
    expect(policy.next(1, new NonRetryableError('no'), '{"maxAttempts":4}')).toBe('dead');
  });

  it.each(['{', 'null', '[1]', '{"maxAttempts":0}', '{"backoff":{"factor":"x"}}', '{"other":1}'])(
    'an own policy that is damaged (%s) is told, and the one for all is taken',
    (damaged) => {
      const { lines, logger } = listener();
      const policy = createRetryPolicy(3, backoff, { logger });
      expect(policy.next(1, undefined, damaged)).toBe(1_000);
      expect(lines).toEqual([expect.stringContaining('own retry policy cannot be read')]);
    },
  );

  it.each([Infinity, 5_000])('C52: is within the cap at attempt 1,100, with %p attempts', (maxAttempts) => {
    const policy = createRetryPolicy(maxAttempts, { ...backoff, jitter: 0.2 });
    for (let i = 0; i < 1_000; i++) {
      const delay = policy.next(1_100) as number;
      expect(delay).toBeGreaterThan(0.79 * 3_600_000);
      expect(delay).toBeLessThanOrEqual(3_600_000);
    }
  });

  it('C52: is never negative, infinite or not a number', () => {
    for (const initialDelay of [0, 1, 1_000]) {
      for (const factor of [1, 2, 1_000]) {
        for (const attempts of [0, 1, 10, 1_100, 1_000_000]) {
          for (const random of [0, 0.999999]) {
            const options = { initialDelay, factor, maxDelay: 3_600_000, jitter: 1 };
            const delay = backoffDelay(attempts, options, () => random);
            expect(Number.isSafeInteger(delay)).toBe(true);
            expect(delay).toBeGreaterThanOrEqual(0);
          }
        }
      }
    }
  });

  it('asks a backoff function, with the count and the error', () => {
    const asked: unknown[] = [];
    const policy = createRetryPolicy(3, (...question) => {
      asked.push(question);
      return '5s';
    });
    const error = new Error('x');
    expect(policy.next(2, error)).toBe(5_000);
    expect(policy.next(3, error)).toBe('dead');
    expect(asked).toEqual([[2, error]]);
  });

  it.each<[string, BackoffFunction]>([
    ['NaN', () => NaN],
    ['a negative number', () => -5],
    ['Infinity', () => Infinity],
    ['a string that is no duration', () => 'soon' as '1s'],
    ['undefined', () => undefined as never],
    ['a promise', () => Promise.reject(new Error('async by mistake')) as never],
    [
      'an error',
      () => {
        throw new Error('oh');
      },
    ],
  ])('C52: a backoff function that gives %s is told once, and the default pause is taken', (_, broken) => {
    const { lines, logger } = listener();
    const policy = createRetryPolicy(10, broken, { logger, random: () => 0 });
    expect(policy.next(1)).toBe(DEFAULT_BACKOFF.initialDelay);
    expect(policy.next(3)).toBe(4 * DEFAULT_BACKOFF.initialDelay);
    expect(lines).toEqual([expect.stringContaining('The backoff function of the outbox failed')]);
  });

  it('a retryIf that throws, or gives no boolean, kills no message', () => {
    const { lines, logger } = listener();
    const broken = [
      () => {
        throw new Error('oh');
      },
      () => undefined as never,
      () => Promise.reject(new Error('async by mistake')) as never,
    ];
    for (const retryIf of broken) {
      expect(createRetryPolicy(3, backoff, { retryIf, logger }).next(1)).toBe(1_000);
    }
    expect(lines).toHaveLength(3);
  });
});
