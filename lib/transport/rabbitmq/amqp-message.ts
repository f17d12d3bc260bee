import type { ClaimedMessage } from '../../persistence/outbox-statements';
import type { AmqpProperties } from './amqp-types';

/** A message as it is handed to a channel. */
export interface AmqpMessage {
  readonly messageId: string;
  readonly exchange: string;
  readonly routingKey: string;
  readonly body: Buffer;
  readonly options: AmqpProperties;
}

/**
 * From the row to what goes on the wire. What the publisher gave with the message wins over the app's
 * `defaultPublishOptions` (golevelup), and those over the module's own defaults: persistent, and dated when it was
 * written. Not up for choice: the message id is the row's, and `mandatory` is set, because without it the broker
 * confirms a message that it throws away.
 *
 * @throws Error when the row's headers or properties cannot be read
 */
export function toAmqpMessage(row: ClaimedMessage, defaultPublishOptions: object = {}): AmqpMessage {
  const headers = read('headers', row.headers);
  return {
    messageId: row.messageId,
    exchange: row.exchange,
    routingKey: row.routingKey,
    body: Buffer.from(row.body, row.bodyEncoding),
    options: {
      persistent: true,
      timestamp: Math.floor(row.createdAt.getTime() / 1_000),
      ...defaultPublishOptions,
      ...read('properties', row.properties),
      ...(headers ? { headers } : {}),
      messageId: row.messageId,
      mandatory: true,
    },
  };
}

function read(what: string, json: string | null): Record<string, unknown> | undefined {
  if (json === null) return undefined;
  try {
    const value: unknown = JSON.parse(json);
    if (typeof value === 'object' && value !== null) return value as Record<string, unknown>;
  } catch {
    // Told below.
  }
  throw new Error(`The ${what} of the row are not a JSON object: ${json.slice(0, 100)}`);
}
