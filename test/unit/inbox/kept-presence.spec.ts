import { KeptPresence } from '../../../lib/inbox/kept-presence';

describe('whether the table may own messages', () => {
  beforeEach(() => jest.useFakeTimers());
  afterEach(() => jest.useRealTimers());

  it('is believed to be so until the table has said otherwise, and again some time after that', () => {
    const presence = new KeptPresence(1_000);
    expect(presence.mayBe).toBe(true);
    presence.ask()(false);
    expect(presence.mayBe).toBe(false);
    jest.advanceTimersByTime(1_999);
    expect(presence.mayBe).toBe(false);
    jest.advanceTimersByTime(1);
    expect(presence.mayBe).toBe(true);
  });

  it('an answer counts from the question on, and not for long however rarely it is asked', () => {
    const presence = new KeptPresence(600_000);
    const answer = presence.ask();
    jest.advanceTimersByTime(4_000);
    answer(false);
    expect(presence.mayBe).toBe(false);
    jest.advanceTimersByTime(1_000);
    expect(presence.mayBe).toBe(true);
  });

  it('what this process keeps counts at once, also while the table is being asked', () => {
    const presence = new KeptPresence(1_000);
    presence.ask()(false);
    presence.note();
    expect(presence.mayBe).toBe(true);
    const answer = presence.ask();
    presence.note();
    answer(false);
    expect(presence.mayBe).toBe(true);
    presence.ask()(true);
    expect(presence.mayBe).toBe(true);
  });
});
