import { InvalidMessageError } from '../message/invalid-message.error';
import { text } from '../message/text-checks';
import { type Check, entriesOf, listOf, oneOfWords, orFalse, propertiesOf } from './mail-json';
import { mailHeaders } from './mail-headers';
import { line, token } from './mail-lines';

const sources = ['content', 'path', 'href', 'raw'] as const;

const contentRules: Record<string, Check> = {
  content: (field, value) => (value instanceof Uint8Array ? value : text(field, value)),
  path: line,
  href: line,
  httpHeaders: (field, value) => entriesOf(field, value, line),
  encoding: token,
  contentType: line,
  contentTransferEncoding: orFalse(token),
  filename: orFalse(line),
  headers: mailHeaders,
};

const attachmentRules: Record<string, Check> = {
  ...contentRules,
  contentDisposition: oneOfWords('attachment', 'inline'),
  cid: line,
  raw: text,
};

const calendarRules: Record<string, Check> = { ...contentRules, method: token };

/** The text itself, bytes, or an object that has or names them. */
export const content: Check = (field, value) => {
  if (typeof value === 'string') return text(field, value);
  if (value instanceof Uint8Array) return fromBytes(value);
  return described(field, value, contentRules);
};

export const calendarEvent: Check = (field, value) =>
  typeof value === 'string' || value instanceof Uint8Array
    ? content(field, value)
    : described(field, value, calendarRules);

export const attachments: Check = listOf((field, value) => described(field, value, attachmentRules));
export const alternatives: Check = listOf((field, value) => described(field, value, contentRules));

function described(field: string, value: unknown, rules: Record<string, Check>): Record<string, unknown> {
  const checked = propertiesOf(field, value, rules);
  const given = sources.filter((source) => checked[source] !== undefined);
  if (given.length !== 1) {
    throw new InvalidMessageError(
      field,
      value,
      given.length === 0
        ? 'It has nothing in it: give content, path or href'
        : `Give only one of ${given.join(' and ')}`,
    );
  }
  const { content: bytes, ...rest } = checked;
  return bytes instanceof Uint8Array ? { ...rest, ...fromBytes(bytes) } : checked;
}

/** The form in which nodemailer takes bytes out of JSON. */
function fromBytes(bytes: Uint8Array): { content: string; encoding: 'base64' } {
  const { buffer, byteOffset, byteLength } = bytes;
  return { content: Buffer.from(buffer, byteOffset, byteLength).toString('base64'), encoding: 'base64' };
}
