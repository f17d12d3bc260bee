import { createHash } from 'node:crypto';
import type { OnMissingId } from '../inbox-outbox.options';
import { MAX_KEY_BYTES, type MessageIdReader } from './idempotent.options';
import type { InboundMessage } from './inbound-message';
import { MessageIdError } from './message-id.error';

/**
 * Reads a message's id as it is: not trimmed, case and accents kept.
 *
 * @returns `undefined` when the message has none: empty and blank ones count as none, since two unrelated messages with
 *   an empty id would be taken for one
 * @throws {MessageIdError} when it has one that cannot be kept without becoming equal to another
 */
export function readMessageId(
  message: InboundMessage,
  read: MessageIdReader = amqpMessageId,
): string | undefined {
  return asMessageId(readGuarded(message, read));
}

/**
 * @returns `undefined` for what counts as no id
 * @throws {MessageIdError} see {@link readMessageId}
 */
export function asMessageId(value: unknown): string | undefined {
  if (value === undefined || value === null) return undefined;
  const id = asText(value);
  if (id.trim() === '') return undefined;
  const bytes = Buffer.byteLength(id);
  if (bytes > MAX_KEY_BYTES) {
    throw new MessageIdError(id, `is longer than ${MAX_KEY_BYTES} bytes (it has ${bytes})`);
  }
  // Databases refuse the first as text, and encoding replaces the second: two ids would become one.
  if (id.includes('\0')) throw new MessageIdError(id, 'contains a NUL character');
  if (!id.isWellFormed()) throw new MessageIdError(id, 'is not well-formed Unicode');
  return id;
}

/**
 * The id under which a message is kept.
 *
 * @returns `undefined` where nothing protects it, or its id cannot be used; whoever handles it alone reports that
 */
export function keptIdOf(
  message: InboundMessage,
  { messageId, onMissingId }: { readonly messageId?: MessageIdReader; readonly onMissingId: OnMissingId },
): string | undefined {
  try {
    const id = readMessageId(message, messageId);
    return id ?? (onMissingId === 'fingerprint' ? fingerprintOf(message) : undefined);
  } catch {
    return undefined;
  }
}

/** The id of a message without one that is known by its content. */
export function fingerprintOf({ content, fields }: InboundMessage): string {
  // The length keeps apart what would run together.
  const key = Buffer.from(fields.routingKey);
  const hash = createHash('sha256').update(`${key.length}:`).update(key).update(content).digest('hex');
  return `sha256:${hash}`;
}

const amqpMessageId: MessageIdReader = (message) => message.properties.messageId as string | undefined;

function readGuarded(message: InboundMessage, read: MessageIdReader): unknown {
  try {
    return read(message);
  } catch (cause) {
    throw new MessageIdError(cause, 'could not be read, the messageId option threw', { cause });
  }
}

function asText(value: unknown): string {
  if (typeof value === 'string') return value;
  if (typeof value === 'bigint') return value.toString();
  if (typeof value === 'number' && Number.isSafeInteger(value)) return value.toString();
  if (typeof value === 'number') {
    throw new MessageIdError(value, 'is a number that is not a safe integer (use a string or a bigint)');
  }
  throw new MessageIdError(value, 'is neither a string nor a number nor a bigint');
}
