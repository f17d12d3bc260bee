import { InvalidMessageError } from '../message/invalid-message.error';
import { text } from '../message/text-checks';

/**
 * A text that becomes part of a header or of a command: with a line break in it, it could add headers and recipients.
 *
 * @throws {InvalidMessageError}
 */
export function line(field: string, value: unknown): string {
  const checked = text(field, value);
  if (/[\r\n\0]/.test(checked)) {
    throw new InvalidMessageError(
      field,
      value,
      'It contains a line break or U+0000, which could add headers of its own; take it out',
    );
  }
  return checked;
}

/** A word of the protocol: one line of printable ASCII. */
export function token(field: string, value: unknown): string {
  const checked = line(field, value);
  if (!/^[\x20-\x7e]+$/.test(checked)) {
    throw new InvalidMessageError(field, value, 'Give printable ASCII characters');
  }
  return checked;
}
