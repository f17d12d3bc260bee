import { DEFAULT_BACKOFF } from '../../../lib/message/backoff';
import { InvalidOptionError } from '../../../lib/message/invalid-option.error';
import { retryHorizon } from '../../../lib/message/retention';
import { type InboxOptions } from '../../../lib/inbox-outbox.options';
import { resolveOptions } from '../../../lib/resolved-options';

describe('how long handled messages are remembered', () => {
  const inbox = (options: InboxOptions) => () => resolveOptions({ inbox: options });

  it('cleaned too early: shorter than the redelivery horizon is refused, with both values', () => {
    expect(inbox({ retention: '12h' })).toThrow(InvalidOptionError);
    expect(inbox({ retention: '12h' })).toThrow(/"inbox.retention" is '12h \(43200000 ms\)'/);
    expect(inbox({ retention: '12h' })).toThrow('inbox.redeliveryHorizon, which is 1d (86400000 ms)');
    expect(inbox({ retention: '12h', redeliveryHorizon: '12h' })).not.toThrow();
    expect(inbox({ redeliveryHorizon: '8d' })).toThrow(InvalidOptionError);
  });

  it('cleaned too early: shorter than all runs of a message take is refused, with both values', () => {
    const backoff = { initialDelay: '1h', factor: 1 } as const;
    expect(inbox({ retention: '2d', maxAttempts: 50, backoff })).toThrow(
      'what all runs of a message take by inbox.maxAttempts and inbox.backoff, which is 2d (176400000 ms)',
    );
    expect(inbox({ retention: '3d', maxAttempts: 50, backoff })).not.toThrow();
    expect(inbox({ maxAttempts: Infinity, backoff })).not.toThrow();
  });

  it('less than a minute is refused in any case', () => {
    expect(inbox({ retention: '59s', redeliveryHorizon: 0 })).toThrow('at least a minute');
  });

  it('sums up the pauses', () => {
    expect(retryHorizon({ maxAttempts: 1, backoff: DEFAULT_BACKOFF })).toBe(0);
    expect(retryHorizon({ maxAttempts: 10, backoff: DEFAULT_BACKOFF })).toBe(511_000);
  });
});
