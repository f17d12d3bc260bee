import { InvalidMessageError } from '../message/invalid-message.error';
import { checkAddress, checkAddresses } from './mail-addresses';
import type { Mail, MailEnvelope } from './mail';
import { alternatives, attachments, calendarEvent, content } from './mail-contents';
import { mailHeaders } from './mail-headers';
import {
  type Check,
  flag,
  isoDate,
  listOf,
  oneOfWords,
  orFalse,
  plain,
  plainLines,
  propertiesOf,
} from './mail-json';
import { line, token } from './mail-lines';

/** A mail as the outbox holds it: JSON that nodemailer takes, checked, with bytes as base64 and the sender filled in. */
export type StoredMail = Readonly<Record<string, unknown>>;

export interface StoringOptions {
  /** For mails without a sender. */
  readonly from: Mail['from'];
  /** Further fields that plugins of the transporter read; stored as JSON. */
  readonly pluginFields: readonly string[];
  /** Largest mail in bytes of JSON. */
  readonly maxStoredBytes: number;
}

const addresses: Check = (field, value) => checkAddresses(field, value).stored;
const address: Check = (field, value) => checkAddress(field, value).stored;

const envelope: Check = (field, value) =>
  propertiesOf(field, value, { from: address, to: addresses, cc: addresses, bcc: addresses } satisfies Record<
    keyof MailEnvelope,
    Check
  >);

const rules: Readonly<Record<keyof Mail, Check>> = {
  from: address,
  sender: address,
  to: addresses,
  cc: addresses,
  bcc: addresses,
  replyTo: addresses,
  subject: line,
  text: content,
  html: content,
  watchHtml: content,
  amp: content,
  icalEvent: calendarEvent,
  attachments,
  alternatives,
  headers: mailHeaders,
  list: plainLines,
  envelope,
  messageId: token,
  inReplyTo: token,
  references: (field, value) => (Array.isArray(value) ? listOf(token)(field, value) : token(field, value)),
  date: isoDate,
  priority: oneOfWords('high', 'normal', 'low'),
  encoding: token,
  textEncoding: oneOfWords('quoted-printable', 'base64', 'Q', 'B'),
  xMailer: orFalse(line),
  attachDataUrls: flag,
  disableFileAccess: flag,
  disableUrlAccess: flag,
  dsn: plainLines,
  ses: plain,
};

/** Names of the fields that a mail can have. */
export const mailFields: readonly string[] = Object.keys(rules);

/** Why fields of nodemailer's are not stored. */
const refused: Readonly<Record<string, string>> = {
  raw: 'A finished message cannot get the outbox’s headers; give its parts',
  auth: 'Secrets are not stored with a mail; they belong to the transport',
  dkim: 'Secrets are not stored with a mail; they belong to the transport',
  otp: 'One-time passcodes are not stored; send them without the outbox',
  signal: 'The mail is sent later, in another process; use OutboxService.cancel()',
};

/**
 * Checks all that can be known now, so that nothing fails later, and nobody's mail gets lines that its author did not mean.
 *
 * @throws {InvalidMessageError} naming the field, e.g. `mail.attachments[0].filename`
 */
export function storeMail(input: Mail, options: StoringOptions): StoredMail {
  for (const [name, remedy] of Object.entries(refused)) {
    const value: unknown = (input as Record<string, unknown> | null)?.[name];
    if (value !== undefined) throw new InvalidMessageError(`mail.${name}`, typeof value, remedy);
  }
  const plugins = Object.fromEntries(options.pluginFields.map((name): [string, Check] => [name, plain]));
  const mail = propertiesOf('mail', input, { ...rules, ...plugins });
  mail.from ??= options.from;
  checkRecipients(input);
  senderOf(mail);
  const bytes = Buffer.byteLength(JSON.stringify(mail));
  if (bytes > options.maxStoredBytes) {
    throw new InvalidMessageError(
      'mail',
      `${bytes} bytes`,
      `More than maxStoredBytes (${options.maxStoredBytes}); give large attachments by path or href`,
    );
  }
  return mail;
}

function checkRecipients(mail: Mail): void {
  const { to, cc, bcc } = mail.envelope ?? mail;
  const all = [to, cc, bcc].filter((each) => each !== undefined);
  if (all.every((each) => checkAddresses('mail.to', each).mailboxes.length === 0)) {
    const field = mail.envelope ? 'mail.envelope' : 'mail.to';
    throw new InvalidMessageError(
      field,
      mail.envelope ?? mail.to,
      'The mail has no recipient: give to, cc or bcc',
    );
  }
}

/** @throws {InvalidMessageError} when there is none */
export function senderOf({ from }: StoredMail): string {
  if (from === undefined) {
    throw new InvalidMessageError(
      'mail.from',
      from,
      "The mail has no sender: give one, or the module's option from for all mails",
    );
  }
  return checkAddress('mail.from', from).mailbox;
}
