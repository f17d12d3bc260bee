import { Deadline } from '../../../lib/locking/deadline';

describe('Deadline', () => {
  beforeEach(() => void jest.useFakeTimers());
  afterEach(() => void jest.useRealTimers());

  it('starts with the stopwatch, and ends a tenth before the lease', () => {
    const deadline = Deadline.clock();
    jest.advanceTimersByTime(400);
    const end = deadline(1_000);
    expect(end.remaining).toBeCloseTo(500);
    jest.advanceTimersByTime(500);
    expect(end.passed).toBe(true);
    expect(end.remaining).toBe(0);
  });

  it('the margin of a long lease is a second', () => {
    expect(Deadline.clock()(60_000).remaining).toBeCloseTo(59_000);
  });

  it('C40: ends early when the wall clock jumps forward, and not late when it jumps back', () => {
    const forward = Deadline.clock()(10_000);
    jest.setSystemTime(Date.now() + 3_600_000);
    expect(forward.passed).toBe(true);
    const back = Deadline.clock()(10_000);
    jest.setSystemTime(Date.now() - 7_200_000);
    expect(back.passed).toBe(false);
    jest.advanceTimersByTime(9_000);
    expect(back.passed).toBe(true);
  });
});
