import { InvalidMessageError } from './invalid-message.error';

/** AMQP's short strings, and the columns that hold them, end here. */
const MAX_BYTES = 255;

/** A string that AMQP can carry as it is: UTF-8 has no lone surrogates, and would get U+FFFD in their place. */
export function text(field: string, value: unknown): string {
  if (typeof value !== 'string') throw new InvalidMessageError(field, value, 'Give a string');
  if (/\p{Surrogate}/u.test(value)) {
    throw new InvalidMessageError(
      field,
      value,
      'It contains half of a surrogate pair, which UTF-8 cannot carry; cut strings between characters',
    );
  }
  return value;
}

/** At most 255 bytes of UTF-8, which is fewer characters where they are not ASCII. */
export function shortText(field: string, value: unknown): string {
  const checked = text(field, value);
  const bytes = Buffer.byteLength(checked);
  if (bytes > MAX_BYTES) {
    throw new InvalidMessageError(field, value, `It has ${bytes} bytes in UTF-8; AMQP allows ${MAX_BYTES}`);
  }
  return checked;
}

/** A short string that is also a text column's value, where U+0000 cannot stand. */
export function storableText(field: string, value: unknown): string {
  const checked = shortText(field, value);
  if (checked.includes('\0')) {
    throw new InvalidMessageError(
      field,
      value,
      'It contains U+0000, which a text column cannot hold; leave it out',
    );
  }
  return checked;
}

/** An identity: with an empty or a blank one, messages that have nothing to do with each other become one. */
export function identifier(field: string, value: unknown): string {
  const checked = storableText(field, value);
  if (checked.trim() === '') {
    throw new InvalidMessageError(field, value, 'Give a text that is not blank, or leave it out');
  }
  return checked;
}
