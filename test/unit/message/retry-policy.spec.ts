import { backoffDelay, createRetryPolicy } from '../../../lib/message/retry-policy';

const backoff = { initialDelay: 1_000, factor: 2, maxDelay: 3_600_000, jitter: 0 };

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
});
