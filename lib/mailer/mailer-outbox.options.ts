import type { Transporter, Transport } from 'nodemailer';
import type SESTransport from 'nodemailer/lib/ses-transport';
import type SMTPPool from 'nodemailer/lib/smtp-pool';
import type SMTPTransport from 'nodemailer/lib/smtp-transport';
import { type BackoffOptions, resolveBackoff, type ResolvedBackoffOptions } from '../message/backoff';
import type { Duration } from '../message/duration';
import { InvalidMessageError } from '../message/invalid-message.error';
import { InvalidOptionError } from '../message/invalid-option.error';
import { attempts, integer, known, number, optionalFunction, timer } from '../message/option-checks';
import type { Mail } from './mail';
import { checkAddress } from './mail-addresses';
import { mailFields } from './stored-mail';

/** What `nodemailer.createTransport()` takes, or what it gives. */
export type MailTransportConfig =
  | string
  | SMTPTransport.Options
  | (SMTPPool.Options & { pool: true })
  | SESTransport.Options
  | Transport
  | Transporter;

/** Options of `MailerOutboxModule.forRoot()`. Bad values are refused at start, by name. */
export interface MailerOutboxModuleOptions {
  /**
   * The way out: an SMTP URL or SMTP options, `{ SES: { sesClient, SendEmailCommand } }`, a transport of your own, or a
   * finished `Transporter` (which is not closed at the end). SMTP connections are kept in a pool unless `pool` is false.
   */
  transport: MailTransportConfig;
  /** The sender of mails that have none. */
  from?: Mail['from'];
  /** Mails a second that this process sends at most, evenly spaced; 0.01 or more. Default: no limit. */
  rateLimit?: number;
  /** Mails under way at once, 1 to 1,000; the size of the SMTP pool too. Default 5. */
  concurrency?: number;
  /** How long sending one mail may take. Default `'2m'`. */
  sendTimeout?: Duration;
  /** Attempts until a mail is dead. A mail server that is away uses up none. Default 20; `Infinity` for no limit. */
  maxAttempts?: number;
  /** The pause between two attempts. Default: 10 s, doubled each time up to 1 h, 20 % random; half a day with 20 attempts. */
  backoff?: BackoffOptions;
  /** The largest mail that is stored, in bytes of JSON. Default 10,485,760 (10 MiB). */
  maxStoredBytes?: number;
  /** Fields of a mail that plugins of the transporter read, e.g. `['template', 'context']`; stored as JSON. Default none. */
  pluginFields?: string[];
  /**
   * Called when a mail was sent, but not to all of its recipients. They have become a message of their own by then, which
   * is tried again or dead. What it throws is logged.
   */
  onRefused?: (refusal: RefusedRecipients) => void | Promise<void>;
}

/** What must be known before any factory runs, since injection tokens depend on it. */
export interface MailerOutboxModuleExtras {
  /** Name of the TypeORM data source whose outbox holds the mails. Default: the default data source. */
  dataSource?: string;
}

/** The recipients of one mail that the mail server did not take. */
export interface RefusedRecipients {
  /** Of the mail that was sent to the others. */
  readonly messageId: string;
  /** Of the message that was written for the refused ones. */
  readonly followUpId: string;
  readonly subject: string | undefined;
  readonly recipients: readonly RefusedRecipient[];
}

export interface RefusedRecipient {
  readonly address: string;
  /** The server's reply, e.g. `550 No such user`. */
  readonly response: string;
  /** Whether it was a refusal only for now (4xx). */
  readonly temporary: boolean;
}

export interface ResolvedMailerOptions {
  readonly transport: MailTransportConfig;
  readonly from: Mail['from'];
  readonly rateLimit: number;
  readonly concurrency: number;
  /** Milliseconds. */
  readonly sendTimeout: number;
  readonly maxAttempts: number;
  readonly backoff: ResolvedBackoffOptions;
  readonly maxStoredBytes: number;
  readonly pluginFields: readonly string[];
  readonly onRefused: MailerOutboxModuleOptions['onRefused'];
}

/** @throws {InvalidOptionError} naming the option and its value */
export function resolveMailerOptions(options: MailerOutboxModuleOptions): ResolvedMailerOptions {
  known('mailer.', options, [
    'transport',
    'from',
    'rateLimit',
    'concurrency',
    'sendTimeout',
    'maxAttempts',
    'backoff',
    'maxStoredBytes',
    'pluginFields',
    'onRefused',
  ] satisfies (keyof MailerOutboxModuleOptions)[]);
  return {
    transport: transportConfig(options.transport),
    from: sender(options.from),
    rateLimit:
      options.rateLimit === undefined
        ? Infinity
        : number('mailer.rateLimit', options.rateLimit, 0.01, 100_000),
    concurrency: integer('mailer.concurrency', options.concurrency ?? 5, 1, 1_000),
    sendTimeout: timer('mailer.sendTimeout', options.sendTimeout ?? '2m', 100),
    maxAttempts: attempts('mailer.maxAttempts', options.maxAttempts ?? 20),
    backoff: resolveBackoff('mailer.backoff.', { initialDelay: '10s', ...options.backoff }),
    maxStoredBytes: integer('mailer.maxStoredBytes', options.maxStoredBytes ?? 10 * 2 ** 20, 1_024, 2 ** 29),
    pluginFields: pluginFields(options.pluginFields ?? []),
    onRefused: optionalFunction('mailer.onRefused', options.onRefused),
  };
}

function transportConfig(transport: MailTransportConfig): MailTransportConfig {
  const isObject = typeof transport === 'object' && transport !== null;
  const isUrl = typeof transport === 'string' && /^smtps?:\/\/[^/]/i.test(transport);
  if (!isObject && !isUrl) {
    throw new InvalidOptionError(
      'mailer.transport',
      transport,
      "an SMTP URL such as 'smtp://user:password@mail.example.com:587', or what nodemailer.createTransport() takes",
    );
  }
  return transport;
}

function sender(from: Mail['from']): Mail['from'] {
  if (from === undefined) return undefined;
  try {
    return checkAddress('mailer.from', from).stored as Mail['from'];
  } catch (error) {
    if (!(error instanceof InvalidMessageError)) throw error;
    throw new InvalidOptionError('mailer.from', from, "one address, e.g. 'Claims <claims@example.com>'");
  }
}

function pluginFields(fields: readonly string[]): readonly string[] {
  const list: readonly unknown[] = Array.isArray(fields) ? (fields as unknown[]) : [undefined];
  if (list.every((field) => typeof field === 'string' && !mailFields.includes(field))) return fields;
  throw new InvalidOptionError('mailer.pluginFields', fields, 'a list of names that no field of a mail has');
}
