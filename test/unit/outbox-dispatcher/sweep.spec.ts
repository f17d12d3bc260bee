import { Sweep } from '../../../lib/outbox/sweep';

describe('Sweep', () => {
  beforeEach(() => jest.useFakeTimers());
  afterEach(() => jest.useRealTimers());

  it('goes on behind what was claimed', () => {
    const sweep = new Sweep();
    expect(sweep.after).toBe('0');
    sweep.claimed('0', '17', 10);
    expect(sweep.after).toBe('17');
    sweep.claimed('17', undefined, 10);
    expect(sweep.after).toBe('17');
  });

  it('starts over when nothing is found, once', () => {
    const sweep = new Sweep();
    expect(sweep.startOver()).toBe(false);
    sweep.claimed('0', '17', 10);
    expect(sweep.startOver()).toBe(true);
    expect(sweep.after).toBe('0');
    expect(sweep.startOver()).toBe(false);
  });

  it('lasts nine times as long as its first claim, however quick the others are', () => {
    const sweep = new Sweep();
    sweep.claimed('0', '17', 100);
    jest.advanceTimersByTime(890);
    sweep.claimed('17', '18', 1);
    expect(sweep.after).toBe('18');
    jest.advanceTimersByTime(20);
    expect(sweep.after).toBe('0');
  });
});
