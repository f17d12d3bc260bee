import { RateLimiter } from '../../../lib/mailer/rate-limiter';

describe('The rate limiter', () => {
  it('lets no second have more than allowed, in the order of asking', async () => {
    const limiter = new RateLimiter(50);
    const passed: { index: number; at: number }[] = [];
    const begun = performance.now();
    await Promise.all(
      Array.from({ length: 20 }, async (_, index) => {
        await limiter.turn();
        passed.push({ index, at: performance.now() });
      }),
    );
    expect(passed.map(({ index }) => index)).toEqual(Array.from({ length: 20 }, (_, index) => index));
    // Each not before its turn; how much later is the machine's affair.
    for (const { index, at } of passed) expect(at - begun).toBeGreaterThanOrEqual(index * 20 - 2);
  });

  it('saves nothing up while nobody asks', async () => {
    let now = 0;
    const limiter = new RateLimiter(100, () => now);
    await limiter.turn();
    now = 60_000;
    await limiter.turn();
    const waiting = limiter.turn();
    let passed = false;
    void waiting.then(() => (passed = true));
    await new Promise((resolve) => setImmediate(resolve));
    expect(passed).toBe(false);
    now = 60_010;
    await waiting;
  });

  it('makes nobody wait without a limit', async () => {
    const limiter = new RateLimiter(Infinity, () => 1);
    for (let i = 0; i < 1_000; i++) await limiter.turn();
  });

  it('ends the waiting when the signal fires', async () => {
    const limiter = new RateLimiter(0.01);
    await limiter.turn();
    const controller = new AbortController();
    const waiting = limiter.turn(controller.signal);
    controller.abort(new Error('shutting down'));
    await expect(waiting).rejects.toThrow('shutting down');
    await expect(limiter.turn(controller.signal)).rejects.toThrow('shutting down');
  });
});
