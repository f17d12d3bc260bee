import type { LoggerService } from '@nestjs/common';
import { createTransport, type SentMessageInfo, type Transporter } from 'nodemailer';
import type SMTPTransport from 'nodemailer/lib/smtp-transport';
import { NonRetryableError } from '../message/non-retryable.error';
import { HandlerUnavailableError } from '../message/handler-unavailable.error';
import { isUnreachable, judge, type MailVerdict } from './mail-failure';
import type { MailTransportConfig } from './mailer-outbox.options';

export interface MailTransportSettings {
  readonly config: MailTransportConfig;
  /** Connections of the SMTP pool. */
  readonly concurrency: number;
  /** Milliseconds for one mail. */
  readonly sendTimeout: number;
  readonly logger: LoggerService;
}

/** Milliseconds until mails are tried again when none could be sent: the first pause, doubled up to the longest. */
const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 30_000;
/** Milliseconds to wait for an answer to the question whether the mail server works. */
const VERIFY_TIMEOUT = 15_000;

/**
 * nodemailer's transporter, with an answer to the question whose fault it was.
 *
 * 1. The mail's own, for ever (5xx): a `NonRetryableError`.
 * 2. The mail's own, for now (4xx): the error as it is.
 * 3. A connection that failed half-way: the server is asked by a connection of its own (`verify()`). Where that works, it was because of
 *    this mail, and it is as in 2. So a mail that makes a server hang up cannot hold back all others for ever.
 * 4. Otherwise, where no connection came about, and where the login or the configuration is refused, it is nobody's fault: a
 *    `HandlerUnavailableError`, with which the outbox makes a pause. It is doubled each time, up to 30 s, until a mail goes
 *    through.
 */
export class MailTransport {
  private readonly transporter: Transporter;
  private readonly isOwn: boolean;
  /** On the monotonic clock. */
  private pauseEnds = 0;
  private failures = 0;
  private question: Promise<boolean | undefined> | undefined;

  /** @throws what nodemailer says about its configuration */
  constructor(private readonly settings: MailTransportSettings) {
    const { config, concurrency } = settings;
    this.isOwn = !isTransporter(config);
    this.transporter = isTransporter(config) ? config : openTransport(config, concurrency);
    // A pooled connection that breaks while idle is replaced by the pool; without a listener it would end the process.
    if (this.isOwn) this.transporter.on('error', () => undefined);
  }

  /**
   * @param signal ends the attempt; whether the mail was sent is unknown then
   * @throws {NonRetryableError} {HandlerUnavailableError} or the transport's error, as told above
   */
  async send(mail: Readonly<Record<string, unknown>>, signal: AbortSignal): Promise<SentMessageInfo> {
    try {
      const info = await this.attempt(mail, signal);
      this.worked();
      return info;
    } catch (error) {
      // A shutdown, or the claim is lost: nothing that was said after that is about the mail.
      signal.throwIfAborted();
      switch (await this.verdictOn(error)) {
        case 'permanent':
          throw new NonRetryableError(describe(error), { cause: error });
        case 'temporary':
          throw error;
        default:
          throw new HandlerUnavailableError(describe(error), { retryAfter: this.pause(error), cause: error });
      }
    }
  }

  /** Connections are closed, except those of a transporter that somebody else has made. */
  close(): void {
    if (this.isOwn) this.transporter.close();
  }

  private async attempt(
    mail: Readonly<Record<string, unknown>>,
    signal: AbortSignal,
  ): Promise<SentMessageInfo> {
    const tooLate = AbortSignal.timeout(this.settings.sendTimeout);
    const either = AbortSignal.any([signal, tooLate]);
    let stopWaiting: () => void = () => undefined;
    // Not all transports, and not all versions of nodemailer, know the signal.
    const aborted = new Promise<never>((_, reject) => {
      stopWaiting = () => reject(either.reason as Error);
      either.addEventListener('abort', stopWaiting, { once: true });
    });
    try {
      const sending = this.transporter.sendMail({ ...mail, signal: either });
      return refuseIfNobodyTookIt(await Promise.race([sending, aborted]));
    } catch (error) {
      if (!tooLate.aborted || signal.aborted) throw error;
      const late = new Error(`The mail was not sent within ${this.settings.sendTimeout} ms`, {
        cause: error,
      });
      throw Object.assign(late, { code: 'ETIMEDOUT' });
    } finally {
      either.removeEventListener('abort', stopWaiting);
    }
  }

  private async verdictOn(error: unknown): Promise<Exclude<MailVerdict, 'unclear'>> {
    const verdict = judge(error);
    if (verdict !== 'unclear') return verdict;
    // Nothing was said yet that could have been the reason. Asking now could meet a server that has just come back.
    if (isUnreachable(error)) return 'transport';
    return ((await this.works()) ?? true) ? 'temporary' : 'transport';
  }

  /** One question at a time, whoever asks. @returns `undefined` where the transport has no way to tell */
  private works(): Promise<boolean | undefined> {
    this.question ??= this.verify().finally(() => (this.question = undefined));
    return this.question;
  }

  private async verify(): Promise<boolean | undefined> {
    let timer: NodeJS.Timeout | undefined;
    const tooLate = new Promise<boolean>((resolve) => {
      timer = setTimeout(() => resolve(false), VERIFY_TIMEOUT);
    });
    try {
      // False from a transport that has no such method.
      const asked = Promise.resolve(this.transporter.verify() as Promise<boolean> | false);
      return await Promise.race([asked.then((answer) => answer || undefined), tooLate]);
    } catch (error) {
      // SES is asked with an invalid mail; that it refuses it shows that it works.
      return judge(error) === 'permanent';
    } finally {
      clearTimeout(timer);
    }
  }

  private worked(): void {
    if (this.failures > 0) this.settings.logger.log('Mails can be sent again');
    this.failures = 0;
    this.pauseEnds = 0;
  }

  /** @returns milliseconds */
  private pause(error: unknown): number {
    const now = performance.now();
    // Those that were under way together have failed together: that is one failure.
    if (now >= this.pauseEnds) {
      if (this.failures === 0) {
        this.settings.logger.error(`No mail can be sent; they wait, and are tried again: ${describe(error)}`);
      }
      this.pauseEnds = now + Math.min(FIRST_PAUSE * 2 ** this.failures, LONGEST_PAUSE);
      this.failures++;
    }
    return Math.max(1, Math.ceil(this.pauseEnds - now));
  }
}

function isTransporter(config: MailTransportConfig): config is Transporter {
  return typeof config === 'object' && 'sendMail' in config && typeof config.sendMail === 'function';
}

/** With a pool for SMTP, unless told otherwise: a connection for each mail costs several round trips and a login. */
function openTransport(config: Exclude<MailTransportConfig, Transporter>, concurrency: number): Transporter {
  if (typeof config === 'string') return createTransport(withPool(config, concurrency));
  const { url, pool, SES, sendmail, streamTransport, jsonTransport, send } = config as Record<
    string,
    unknown
  >;
  const isSmtp = !SES && !sendmail && !streamTransport && !jsonTransport && typeof send !== 'function';
  if (!isSmtp || pool === false) return createTransport(config as SMTPTransport.Options);
  const pooled = { maxConnections: concurrency, ...config, pool: true };
  return createTransport(
    (typeof url === 'string'
      ? { ...pooled, url: withPool(url, concurrency) }
      : pooled) as SMTPTransport.Options,
  );
}

/** Older versions of nodemailer read nothing but the URL where there is one. */
function withPool(url: string, concurrency: number): string {
  const { searchParams } = new URL(url);
  const missing = Object.entries({ pool: 'true', maxConnections: String(concurrency) }).filter(
    ([name]) => !searchParams.has(name),
  );
  const query = missing.map(([name, value]) => `${name}=${value}`).join('&');
  return query === '' ? url : `${url}${url.includes('?') ? '&' : '?'}${query}`;
}

/** LMTP answers for each recipient after the mail, and nodemailer counts that as sent even when nobody took it. */
function refuseIfNobodyTookIt(info: SentMessageInfo): SentMessageInfo {
  const { accepted, rejected, rejectedErrors } = info;
  if (!rejected?.length || accepted === undefined || accepted.length > 0) return info;
  const errors = Array.isArray(rejectedErrors) ? (rejectedErrors as Error[]) : [];
  const last = errors.at(-1);
  throw Object.assign(new Error(last?.message ?? `No recipient was accepted: ${rejected.join(', ')}`), {
    code: 'EENVELOPE',
    responseCode: (last as { responseCode?: number } | undefined)?.responseCode,
    rejected,
    rejectedErrors: errors,
  });
}

function describe(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
