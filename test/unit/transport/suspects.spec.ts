import type { AmqpMessage } from '../../../lib/transport/rabbitmq/amqp-message';
import type { ChannelFault } from '../../../lib/transport/rabbitmq/confirm-channel';
import { Suspects } from '../../../lib/transport/rabbitmq/suspects';

const message = (messageId: string, exchange = 'ex'): AmqpMessage => ({
  messageId,
  exchange,
  routingKey: 'key',
  body: Buffer.from(''),
  options: {},
});
const missing = (exchange: string): ChannelFault => ({
  code: 404,
  byMessage: true,
  error: `Channel closed by server: 404 (NOT-FOUND) with message "NOT_FOUND - no exchange '${exchange}' in vhost '/'"`,
});
const tooLarge: ChannelFault = { code: 406, byMessage: true, error: 'PRECONDITION_FAILED - message size' };

describe('Suspects', () => {
  beforeEach(() => void jest.useFakeTimers());
  afterEach(() => void jest.useRealTimers());

  it('where the broker names the exchange, messages for it are guilty and others innocent', () => {
    const suspects = new Suspects();
    expect(suspects.judge(message('a', "it's gone"), missing("it's gone"))).toBe('guilty');
    expect(suspects.judge(message('b', 'ex'), missing("it's gone"))).toBe('innocent');
    expect(suspects.isSuspect(message('c', "it's gone"))).toBe(true);
    expect(suspects.isSuspect(message('b', 'ex'))).toBe(false);
  });

  it('where it names nothing, all that was under way is suspect until it has gone through', () => {
    const suspects = new Suspects();
    expect(suspects.judge(message('a'), tooLarge)).toBe('suspect');
    expect(suspects.isSuspect(message('a'))).toBe(true);
    expect(suspects.isSuspect(message('other'))).toBe(false);
    suspects.acquit(message('a'));
    expect(suspects.isSuspect(message('a'))).toBe(false);
  });

  it('the answer about a missing exchange holds for a second, the suspicion until something has gone through', () => {
    const suspects = new Suspects();
    suspects.convict(message('a', 'gone'), missing('gone'));
    expect(suspects.answerFor(message('b', 'gone'))).toContain('no exchange');
    expect(suspects.answerFor(message('b', 'ex'))).toBeUndefined();
    jest.advanceTimersByTime(1_000);
    expect(suspects.answerFor(message('b', 'gone'))).toBeUndefined();
    expect(suspects.isSuspect(message('b', 'gone'))).toBe(true);
    suspects.acquit(message('b', 'gone'));
    expect(suspects.isSuspect(message('c', 'gone'))).toBe(false);
    expect(suspects.isSuspect(message('a', 'gone'))).toBe(true);
  });

  it('another fault of one message says nothing about its exchange', () => {
    const suspects = new Suspects();
    suspects.convict(message('a'), tooLarge);
    expect(suspects.isSuspect(message('b'))).toBe(false);
    expect(suspects.isSuspect(message('a'))).toBe(true);
  });

  it('remembers a bounded number and forgets the oldest', () => {
    const suspects = new Suspects();
    for (let n = 0; n <= 10_000; n++) suspects.convict(message(String(n)), tooLarge);
    expect(suspects.isSuspect(message('0'))).toBe(false);
    expect(suspects.isSuspect(message('1'))).toBe(true);
  });
});
