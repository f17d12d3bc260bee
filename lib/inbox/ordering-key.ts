import type { Delivery } from './delivery';
import { MAX_KEY_BYTES } from './idempotent.options';
import { OrderingKeyError } from './ordering-key.error';

/**
 * @returns `undefined` when the handler promises no order, or the message has no key
 * @throws {OrderingKeyError} when it has one that cannot be kept, or when the option throws
 */
export function readOrderingKey(
  delivery: Pick<Delivery, 'policy' | 'message' | 'payload'>,
): string | undefined {
  const { policy, message, payload } = delivery;
  if (!policy.orderingKey) return undefined;
  const key = readGuarded(() => policy.orderingKey?.(message, payload() as never));
  if (key === undefined || key === null || key === '') return undefined;
  if (typeof key !== 'string') throw new OrderingKeyError(key, 'is not a string');
  const bytes = Buffer.byteLength(key);
  if (bytes > MAX_KEY_BYTES) {
    throw new OrderingKeyError(key, `is longer than ${MAX_KEY_BYTES} bytes (it has ${bytes})`);
  }
  if (key.includes('\0')) throw new OrderingKeyError(key, 'contains a NUL character');
  return key;
}

function readGuarded(read: () => unknown): unknown {
  try {
    return read();
  } catch (cause) {
    throw new OrderingKeyError(cause, 'could not be read, the orderingKey option threw', { cause });
  }
}
