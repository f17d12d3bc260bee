import { identifier } from '../message/text-checks';
import type { OutboxInsert } from '../persistence/outbox-statements';
import { checkOptionNames } from './option-names';
import type { EnqueuedMessage, EnqueueOptions, OutboxMessage } from './publish-options';
import { toOutboxInsert } from './to-outbox-insert';

/** Without `manager`, which has been used up by then. */
const KNOWN: readonly string[] = [
  'messageId',
  'orderingKey',
  'deliverAt',
  'delay',
  'expiresAt',
  'deduplicationKey',
  'retry',
  'headers',
] satisfies readonly (keyof EnqueueOptions)[];

/**
 * A message for a local handler as it is written. Its body is JSON, or the bytes of a Buffer, whatever serializer messages
 * to the broker go through: it is read by the module itself.
 *
 * @param inContext adds what ties a message to what it comes from
 * @throws {InvalidMessageError}
 */
export function toLocalInsert(
  { handler, payload, options = {} }: EnqueuedMessage,
  inContext: (message: OutboxMessage) => OutboxMessage = (message) => message,
): OutboxInsert {
  checkOptionNames(
    options,
    KNOWN,
    () =>
      `A local handler has no use for it; enqueue() knows ${KNOWN.join(', ')}. What the handler needs goes into the ` +
      'payload or the headers',
  );
  const routingKey = identifier('handler', handler);
  const message = inContext({ exchange: '', routingKey, payload, options });
  return { ...toOutboxInsert(message), transport: 'local' };
}
