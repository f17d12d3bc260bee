import { type AmqpTable, decodeTable } from './amqp-codec';
import { DamagedMessageError } from './damaged-message.error';

/**
 * Headers or properties as they were published.
 *
 * @param column for the error
 * @returns `undefined` for none
 * @throws {DamagedMessageError}
 */
export function readTable(column: string, text: string | null): AmqpTable | undefined {
  try {
    return decodeTable(text);
  } catch (cause) {
    throw new DamagedMessageError(column, cause instanceof Error ? cause.message : String(cause), { cause });
  }
}

/**
 * A body as it was published.
 *
 * @throws {DamagedMessageError} rather than give other bytes, which is what Node makes of damaged base64
 */
export function readBody(body: string, encoding: string): Buffer {
  if (typeof body !== 'string') throw new DamagedMessageError('body', 'it is empty (NULL)');
  if (encoding === 'utf8') return Buffer.from(body, 'utf8');
  if (encoding !== 'base64') {
    throw new DamagedMessageError('body_encoding', `it is "${encoding}" and neither "utf8" nor "base64"`);
  }
  const bytes = Buffer.from(body, 'base64');
  if (plain(bytes.toString('base64')) !== plain(body))
    throw new DamagedMessageError('body', 'it is no base64');
  return bytes;
}

/** Line breaks and padding, which a database's own encoder writes otherwise, carry no meaning. */
const plain = (base64: string): string => base64.replace(/\s+/g, '').replace(/=+$/, '');
