import { createHash } from 'node:crypto';
import type { InboundMessage } from './inbound-message';

/**
 * What of a message is compared, where that is not its body as it is: without a date of sending, for example. Two messages are
 * the same when it gives the same bytes.
 */
export type FingerprintReader = (message: InboundMessage) => string | Uint8Array;

export function contentHash(content: string | Uint8Array): string {
  return createHash('sha256').update(content).digest('hex');
}

/** The same for each copy, and another for each content: a row of its own, apart from that of the id. */
export function conflictingId(messageId: string, hash: string): string {
  return `conflict:${contentHash(`${messageId}\0${hash}`)}`;
}
