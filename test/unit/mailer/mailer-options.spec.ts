import { resolveMailerOptions } from '../../../lib/mailer/mailer-outbox.options';
import { InvalidOptionError } from '../../../lib/message/invalid-option.error';

const transport = 'smtp://user:secret@mail.example.com:587';

describe('The options of the mailer', () => {
  it('have defaults', () => {
    expect(resolveMailerOptions({ transport })).toEqual({
      transport,
      from: undefined,
      rateLimit: Infinity,
      concurrency: 5,
      sendTimeout: 120_000,
      maxAttempts: 20,
      backoff: { initialDelay: 10_000, factor: 2, maxDelay: 3_600_000, jitter: 0.2 },
      maxStoredBytes: 10_485_760,
      pluginFields: [],
      onRefused: undefined,
    });
  });

  it.each<[object, string]>([
    [{ transport: undefined }, 'mailer.transport'],
    [{ transport: null }, 'mailer.transport'],
    [{ transport: 'mail.example.com' }, 'mailer.transport'],
    [{ transport: 'http://mail.example.com' }, 'mailer.transport'],
    [{ from: 'nobody' }, 'mailer.from'],
    [{ from: 'a@example.com, b@example.com' }, 'mailer.from'],
    [{ from: 'a@example.com\r\nBcc: b@example.com' }, 'mailer.from'],
    [{ rateLimit: 0 }, 'mailer.rateLimit'],
    [{ rateLimit: '14' }, 'mailer.rateLimit'],
    [{ concurrency: 0 }, 'mailer.concurrency'],
    [{ concurrency: 1.5 }, 'mailer.concurrency'],
    [{ sendTimeout: 'soon' }, 'mailer.sendTimeout'],
    [{ sendTimeout: '30d' }, 'mailer.sendTimeout'],
    [{ maxAttempts: 0 }, 'mailer.maxAttempts'],
    [{ backoff: { factor: 0 } }, 'mailer.backoff.factor'],
    [{ backoff: { delay: 1 } }, 'mailer.backoff.delay'],
    [{ maxStoredBytes: '10MB' }, 'mailer.maxStoredBytes'],
    [{ pluginFields: 'template' }, 'mailer.pluginFields'],
    [{ pluginFields: ['subject'] }, 'mailer.pluginFields'],
    [{ onRefused: 'log' }, 'mailer.onRefused'],
    [{ ratelimit: 5 }, 'mailer.ratelimit'],
  ])('are refused: %j', (options, name) => {
    const resolve = () => resolveMailerOptions({ transport, ...options });
    expect(resolve).toThrow(InvalidOptionError);
    expect(resolve).toThrow(`"${name}"`);
  });

  it('are refused where there are none', () => {
    expect(() => resolveMailerOptions(undefined as never)).toThrow(InvalidOptionError);
  });
});
