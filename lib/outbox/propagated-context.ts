import { isPlainObject } from '../message/amqp-headers';
import { currentMessage, type MessageContext } from '../message/message-context';
import { activeTrace } from '../message/trace-context';
import type { OutboxMessage } from './publish-options';

/** Header with the id of the message whose handling led to this one. */
export const CAUSATION_HEADER = 'x-causation-id';

const TRACE_HEADERS = ['traceparent', 'tracestate'] as const;

/** AMQP's short strings end here. An id that came from elsewhere and does not fit must not fail a publish. */
const MAX_BYTES = 255;

/**
 * Adds what ties a message to what it comes from. Whatever the caller gives wins; a header given as
 * `undefined` is left out.
 *
 * - Correlation id: that of the message that is being handled, or its id where it has none, so that one conversation has
 *   one id.
 * - Causation id, a header: the id of the message that is being handled.
 * - Trace: the active span's, as the application's OpenTelemetry propagators write it; without one the `traceparent` and
 *   `tracestate` of the message that is being handled.
 */
export function withContext(message: OutboxMessage): OutboxMessage {
  const { options = {} } = message;
  // What cannot be merged is refused later, by name.
  if (!isPlainObject(options)) return message;
  const { headers: given = {} } = options;
  if (!isPlainObject(given)) return message;
  const handled = currentMessage();
  const added: Record<string, unknown> = { ...causationOf(handled), ...traceOf(handled, given) };
  const correlationId = options.correlationId ?? fitting(handled?.correlationId ?? handled?.messageId);
  if (Object.keys(added).length === 0 && correlationId === undefined) return message;
  return { ...message, options: { ...options, correlationId, headers: { ...added, ...given } } };
}

function causationOf(handled: MessageContext | undefined): Record<string, string> {
  const id = fitting(handled?.messageId);
  return id === undefined ? {} : { [CAUSATION_HEADER]: id };
}

/** One trace or the other: a state without the parent that it belongs to would be wrong. */
function traceOf(
  handled: MessageContext | undefined,
  given: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  if (given.traceparent !== undefined) return {};
  const active = activeTrace();
  if (Object.keys(active).length > 0) return active;
  if (typeof handled?.headers.traceparent !== 'string') return {};
  const { headers } = handled;
  return Object.fromEntries(
    TRACE_HEADERS.filter((name) => typeof headers[name] === 'string').map((name) => [name, headers[name]]),
  );
}

function fitting(id: string | undefined): string | undefined {
  return id !== undefined && id !== '' && Buffer.byteLength(id) <= MAX_BYTES ? id : undefined;
}
