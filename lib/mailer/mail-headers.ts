import { createHash } from 'node:crypto';
import { InvalidMessageError } from '../message/invalid-message.error';
import { type Check, entriesOf, flag, listOf, propertiesOf } from './mail-json';
import { line } from './mail-lines';

/** Tells the far side which outbox message it is, also where the relay replaces the Message-ID, as SES does. */
export const OUTBOX_ID_HEADER = 'X-Outbox-Message-Id';

/** Given as headers they would add recipients behind the checks, or take the place of what the module sets. */
const fieldOf: Readonly<Record<string, string>> = {
  from: 'from',
  sender: 'sender',
  to: 'to',
  cc: 'cc',
  bcc: 'bcc',
  'reply-to': 'replyTo',
  subject: 'subject',
  'message-id': 'messageId',
  'in-reply-to': 'inReplyTo',
  references: 'references',
  date: 'date',
};

/** An object by name, or a list of `{ key, value }`. */
export const mailHeaders: Check = (field, value) => {
  if (!Array.isArray(value)) {
    return entriesOf(field, value, (path, each) => {
      headerName(path, path.slice(field.length + 1));
      return headerValue(path, each);
    });
  }
  return listOf((path, each) => propertiesOf(path, each, { key: headerName, value: headerValue }))(
    field,
    value,
  );
};

const headerName: Check = (field, value) => {
  const name = line(field, value);
  if (!/^[!-9;-~]+$/.test(name)) {
    throw new InvalidMessageError(field, value, 'Header names are printable ASCII without blanks and colons');
  }
  const lowerCase = name.toLowerCase();
  const own = fieldOf[lowerCase];
  if (own) throw new InvalidMessageError(field, value, `Give mail.${own} instead`);
  if (lowerCase === OUTBOX_ID_HEADER.toLowerCase()) {
    throw new InvalidMessageError(field, value, 'The outbox sets this header itself; leave it out');
  }
  return name;
};

const headerValue: Check = (field, value) => {
  if (typeof value === 'string') return line(field, value);
  if (Array.isArray(value)) return listOf(line)(field, value);
  return propertiesOf(field, value, { prepared: flag, value: line, foldLines: flag });
};

/**
 * The `Message-ID` of an outbox message: the same in every attempt.
 *
 * @param sender address whose domain stands on the right side, as mail programs do it
 */
export function messageIdHeader(outboxMessageId: string, sender: string): string {
  // An id of the application's own can be any text.
  const left = /^[\w!#$%&'*+/=?^`{|}~.-]{1,128}$/.test(outboxMessageId)
    ? outboxMessageId
    : createHash('sha256').update(outboxMessageId).digest('hex');
  const domain = sender.slice(sender.lastIndexOf('@') + 1);
  return `<${left}@${/^[\x21-\x7e]+$/.test(domain) ? domain : 'localhost'}>`;
}
