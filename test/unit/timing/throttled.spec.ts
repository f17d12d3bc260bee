import { throttled } from '../../../lib/timing/throttled';

describe('throttled', () => {
  beforeEach(() => void jest.useFakeTimers());
  afterEach(() => void jest.useRealTimers());

  it('calls at once, and once more for all that came meanwhile', () => {
    const call = jest.fn();
    const request = throttled(call, 100);
    for (let n = 0; n < 50; n++) request();
    expect(call).toHaveBeenCalledTimes(1);
    jest.advanceTimersByTime(99);
    expect(call).toHaveBeenCalledTimes(1);
    jest.advanceTimersByTime(1);
    expect(call).toHaveBeenCalledTimes(2);
    jest.advanceTimersByTime(1_000);
    expect(call).toHaveBeenCalledTimes(2);
    request();
    expect(call).toHaveBeenCalledTimes(3);
  });
});
