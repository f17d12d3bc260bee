import { Claim, type ClaimStore } from '../../../lib/claiming/claim';

const logger = { log: jest.fn(), warn: jest.fn(), error: jest.fn() };
const terms = { lease: 3_000, limit: 10 };

class Store implements ClaimStore<string> {
  readonly tokens: string[] = [];
  renewals = 0;
  answer: () => Promise<number> = () => Promise.resolve(2);
  /** Milliseconds that the statement takes. */
  takes = 0;
  async claim({ token }: { token: string }): Promise<string[]> {
    this.tokens.push(token);
    jest.advanceTimersByTime(this.takes);
    return Promise.resolve(['a', 'b']);
  }
  renew(): Promise<number> {
    this.renewals++;
    return this.answer();
  }
}

describe('Claim', () => {
  let store: Store;
  beforeEach(() => {
    jest.useFakeTimers();
    logger.warn.mockClear();
    store = new Store();
  });
  afterEach(() => jest.useRealTimers());

  const claim = async () => (await Claim.take(store, terms, logger))!;

  it('each has a token of its own', async () => {
    await claim();
    await claim();
    expect(new Set(store.tokens).size).toBe(2);
  });

  it('G9: ends before the lease does in the database: counted from before the statement, less a margin', async () => {
    store.takes = 500;
    store.answer = () => Promise.reject(new Error('the database is away'));
    const taken = await claim();
    // Three seconds less 300 ms of margin less the 500 ms that the statement took.
    await jest.advanceTimersByTimeAsync(2_199);
    expect(taken.valid).toBe(true);
    await jest.advanceTimersByTimeAsync(1);
    expect(taken.valid).toBe(false);
  });

  it('lasts as long as renewals find all its messages', async () => {
    const taken = await claim();
    await jest.advanceTimersByTimeAsync(30_000);
    expect(taken.valid).toBe(true);
    expect(store.renewals).toBeGreaterThanOrEqual(29);
    await taken.endRenewal();
    await jest.advanceTimersByTimeAsync(3_000);
    expect(taken.valid).toBe(false);
  });

  it('C41: a renewal that misses one message does not move the end, since nobody knows which is still ours', async () => {
    store.answer = () => Promise.resolve(1);
    const taken = await claim();
    await jest.advanceTimersByTimeAsync(2_700);
    expect(taken.valid).toBe(false);
    expect(store.renewals).toBe(1);
    expect(logger.warn).toHaveBeenCalledWith(expect.stringContaining('1 of 2 claimed messages'));
  });

  it('a renewal that fails is tried again', async () => {
    let failures = 2;
    store.answer = () => (failures-- > 0 ? Promise.reject(new Error('away')) : Promise.resolve(2));
    const taken = await claim();
    await jest.advanceTimersByTimeAsync(5_000);
    expect(taken.valid).toBe(true);
    expect(logger.warn).toHaveBeenCalledTimes(2);
  });

  it('waits for a renewal under way before it may be settled: both write the same rows', async () => {
    let answer!: (found: number) => void;
    store.answer = () => new Promise((resolve) => (answer = resolve));
    const taken = await claim();
    await jest.advanceTimersByTimeAsync(1_000);
    let ended = false;
    const ending = taken.endRenewal().then(() => (ended = true));
    await jest.advanceTimersByTimeAsync(10);
    expect(ended).toBe(false);
    answer(2);
    await ending;
    await jest.advanceTimersByTimeAsync(10_000);
    expect(store.renewals).toBe(1);
  });

  it('is none when there is nothing to claim', async () => {
    store.claim = () => Promise.resolve([]);
    expect(await Claim.take(store, terms, logger)).toBeUndefined();
    await jest.advanceTimersByTimeAsync(10_000);
    expect(store.renewals).toBe(0);
  });
});
