import { createTransport, type SentMessageInfo, type Transport } from 'nodemailer';
import { MailTransport } from '../../../lib/mailer/mail-transport';
import { HandlerUnavailableError } from '../../../lib/message/handler-unavailable.error';
import { NonRetryableError } from '../../../lib/message/non-retryable.error';

const mail = { from: 'a@example.com', to: 'b@example.com', subject: 'x', text: 'x' };
const never = new AbortController().signal;
const failure = (properties: object) => Object.assign(new Error('It failed'), properties);

interface Script {
  send?: () => SentMessageInfo | Error | 'hangs';
  verify?: () => Promise<true>;
}

function open({ send, verify }: Script, sendTimeout = 5_000) {
  const lines: string[] = [];
  const note = (level: string) => (line: string) => void lines.push(`${level}: ${line}`);
  const config: Transport = {
    name: 'scripted',
    version: '1',
    send: (_, callback) => {
      const result = send?.() ?? { envelope: { from: '', to: [] }, messageId: 'x' };
      if (result === 'hangs') return;
      if (result instanceof Error) callback(result);
      else callback(null, result);
    },
    ...(verify && { verify }),
  };
  const logger = { log: note('log'), warn: note('warn'), error: note('error') };
  return { transport: new MailTransport({ config, concurrency: 5, sendTimeout, logger }), lines };
}

const works = async () => true as const;
const isAway = async () => Promise.reject(failure({ code: 'ESOCKET' }));

async function errorOf(script: Script): Promise<unknown> {
  return open(script)
    .transport.send(mail, never)
    .then(
      () => undefined,
      (error: unknown) => error,
    );
}

describe('The mail transport', () => {
  it('lets a mail die that is refused for ever, with the server’s words', async () => {
    const error = failure({ code: 'EENVELOPE', responseCode: 550 });
    const thrown = await errorOf({ send: () => error, verify: works });
    expect(thrown).toBeInstanceOf(NonRetryableError);
    expect(thrown).toMatchObject({ message: 'It failed', cause: error });
  });

  it('passes on what is refused for now', async () => {
    const error = failure({ code: 'EENVELOPE', responseCode: 450 });
    expect(await errorOf({ send: () => error, verify: isAway })).toBe(error);
  });

  it('blames the mail for a lost connection when the server works', async () => {
    const error = failure({ code: 'ECONNECTION' });
    expect(await errorOf({ send: () => error, verify: works })).toBe(error);
  });

  it('blames nobody when the server is away', async () => {
    const thrown = await errorOf({ send: () => failure({ code: 'ECONNECTION' }), verify: isAway });
    expect(thrown).toBeInstanceOf(HandlerUnavailableError);
  });

  it('blames nobody when no connection came about, even if the server is back by now', async () => {
    const away = failure({ code: 'ESOCKET', originalCode: 'ECONNREFUSED' });
    expect(await errorOf({ send: () => away, verify: works })).toBeInstanceOf(HandlerUnavailableError);
  });

  it('blames nobody when the login is refused, without asking', async () => {
    const verify = jest.fn(works);
    const thrown = await errorOf({ send: () => failure({ code: 'EAUTH', responseCode: 535 }), verify });
    expect(thrown).toBeInstanceOf(HandlerUnavailableError);
    expect(verify).not.toHaveBeenCalled();
  });

  it('takes the refusal of the test mail for a sign of life, as SES gives it', async () => {
    const error = failure({ code: 'ESES', name: 'TooManyRequestsException' });
    const verify = async () => Promise.reject(failure({ code: 'ESES', name: 'BadRequestException' }));
    expect(await errorOf({ send: () => error, verify })).toBe(error);
  });

  it('without a way to ask goes by whether a connection came about', async () => {
    expect(await errorOf({ send: () => failure({ code: 'ECONNREFUSED' }) })).toBeInstanceOf(
      HandlerUnavailableError,
    );
    const lost = failure({ code: 'ECONNRESET' });
    expect(await errorOf({ send: () => lost })).toBe(lost);
  });

  it('asks once for mails that fail together', async () => {
    const verify = jest.fn(isAway);
    const { transport, lines } = open({ send: () => failure({ code: 'ECONNECTION' }), verify });
    const all = await Promise.allSettled(Array.from({ length: 5 }, () => transport.send(mail, never)));
    expect(all.map(({ status }) => status)).toEqual(Array(5).fill('rejected'));
    expect(verify).toHaveBeenCalledTimes(1);
    expect(lines).toHaveLength(1);
  });

  it('makes longer and longer pauses up to 30 s, until a mail goes through', async () => {
    const now = jest.spyOn(performance, 'now');
    let answer: SentMessageInfo | Error = failure({ code: 'EAUTH' });
    const { transport, lines } = open({ send: () => answer });
    const pauseAt = async (time: number) => {
      now.mockReturnValue(time);
      return transport.send(mail, never).then(
        () => 0,
        (error: HandlerUnavailableError) => error.retryAfter,
      );
    };
    try {
      expect(await pauseAt(1_000)).toBe(500);
      // Begun before the pause: the same failure.
      expect(await pauseAt(1_100)).toBe(400);
      expect(await pauseAt(1_500)).toBe(1_000);
      expect(await pauseAt(2_500)).toBe(2_000);
      for (const time of [10_000, 20_000, 40_000, 60_000, 100_000]) await pauseAt(time);
      expect(await pauseAt(200_000)).toBe(30_000);
      answer = { envelope: { from: '', to: [] }, messageId: 'x' };
      expect(await pauseAt(300_000)).toBe(0);
      answer = failure({ code: 'EAUTH' });
      expect(await pauseAt(300_001)).toBe(500);
    } finally {
      now.mockRestore();
    }
    expect(lines.map((line) => line.split(':')[0])).toEqual(['error', 'log', 'error']);
  });

  it('gives up a mail that takes too long, also where the transport does not listen', async () => {
    const { transport } = open({ send: () => 'hangs', verify: works }, 100);
    await expect(transport.send(mail, never)).rejects.toMatchObject({ code: 'ETIMEDOUT' });
  });

  it('ends with the signal’s reason', async () => {
    const { transport } = open({ send: () => 'hangs', verify: works });
    const controller = new AbortController();
    const sending = transport.send(mail, controller.signal);
    controller.abort(new Error('shutting down'));
    await expect(sending).rejects.toThrow('shutting down');
  });

  it('counts a mail that no recipient took as not sent', async () => {
    const info = (responseCode: number) => ({
      envelope: { from: '', to: [] },
      messageId: 'x',
      accepted: [],
      rejected: ['b@example.com'],
      rejectedErrors: [failure({ responseCode, recipient: 'b@example.com' })],
    });
    expect(await errorOf({ send: () => info(550) })).toBeInstanceOf(NonRetryableError);
    expect(await errorOf({ send: () => info(450) })).toMatchObject({ responseCode: 450 });
  });

  it.each([
    ['a URL', 'smtp://127.0.0.1:1', true],
    ['options', { host: '127.0.0.1', port: 1 }, true],
    ['options with pool: false', { host: '127.0.0.1', port: 1, pool: false }, false],
    ['a URL with pool=false', 'smtp://127.0.0.1:1?pool=false', false],
  ])('keeps SMTP connections in a pool, given %s: %j %s', (_, config, pooled) => {
    const logger = { log: jest.fn(), warn: jest.fn(), error: jest.fn() };
    const transport = new MailTransport({ config, concurrency: 7, sendTimeout: 1_000, logger });
    const { transporter } = transport as unknown as { transporter: ReturnType<typeof createTransport> };
    expect(transporter.transporter.name).toBe(pooled ? 'SMTP (pool)' : 'SMTP');
    if (pooled) expect(transporter.options).toMatchObject({ pool: true });
    transport.close();
  });

  it('closes what it has made, and nobody else’s transporter', () => {
    const logger = { log: jest.fn(), warn: jest.fn(), error: jest.fn() };
    const transporter = createTransport({ jsonTransport: true });
    const close = jest.spyOn(transporter, 'close').mockImplementation(() => undefined);
    new MailTransport({ config: transporter, concurrency: 1, sendTimeout: 1_000, logger }).close();
    expect(close).not.toHaveBeenCalled();
  });
});
