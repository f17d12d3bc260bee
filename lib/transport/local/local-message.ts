import { decodeTable } from '../../message/amqp-codec';
import type { ClaimedMessage } from '../../persistence/outbox-statements';
import type { OutboxHandlerContext } from './outbox-handler-context';

/**
 * What the handler gets. Decoded anew for each run, so that none sees what another has made of it.
 *
 * @throws Error when the row cannot be read, which no retry changes
 */
export function decodeLocalMessage(
  message: ClaimedMessage,
  signal: AbortSignal,
): { payload: unknown; context: OutboxHandlerContext } {
  const { routingKey, messageId, attempts, orderingKey, createdAt, headers, properties } = message;
  const correlationId = decodeTable(properties)?.['correlationId'];
  return {
    payload: decodeBody(message),
    context: {
      handler: routingKey,
      messageId,
      attempt: attempts + 1,
      correlationId: typeof correlationId === 'string' ? correlationId : undefined,
      orderingKey: orderingKey ?? undefined,
      createdAt,
      headers: decodeTable(headers) ?? {},
      signal,
    },
  };
}

/** `enqueue()` writes bytes as bytes and everything else as JSON. */
function decodeBody({ body, bodyEncoding }: ClaimedMessage): unknown {
  if (bodyEncoding === 'base64') return Buffer.from(body, 'base64');
  if (bodyEncoding === 'utf8') return JSON.parse(body) as unknown;
  throw new Error(`The body has the unknown encoding "${String(bodyEncoding)}"`);
}
