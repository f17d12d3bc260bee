import { DamagedMessageError } from '../../message/damaged-message.error';
import { readBody, readTable } from '../../message/stored-message';
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

const TRANSPORT = 'rabbitmq';

/**
 * From the row to what goes on the wire. What the publisher gave with the message wins over the app's
 * `defaultPublishOptions` (golevelup), and those over the module's own defaults: persistent, and dated when it was
 * published. Not up for choice: the message id is the row's, and `mandatory` is set, because without it the broker
 * confirms a message that it throws away.
 *
 * @throws {DamagedMessageError} when the row cannot be read, or is not for this transport
 */
export function toAmqpMessage(row: ClaimedMessage, defaultPublishOptions: object = {}): AmqpMessage {
  if (row.transport !== TRANSPORT) {
    throw new DamagedMessageError('transport', `there is no transport "${row.transport}"`);
  }
  const properties = readTable('properties', row.properties) ?? {};
  const headers = readTable('headers', row.headers);
  return {
    messageId: row.messageId,
    exchange: row.exchange,
    routingKey: row.routingKey,
    body: readBody(row.body, row.bodyEncoding),
    options: {
      timestamp: Math.floor(row.createdAt.getTime() / 1_000),
      ...defaultPublishOptions,
      ...properties,
      ...(headers ? { headers } : {}),
      persistent: isPersistent(properties) ?? isPersistent(defaultPublishOptions as AmqpProperties) ?? true,
      messageId: row.messageId,
      mandatory: true,
    },
  };
}

/** amqplib takes either name, and `persistent` before the other; here the more specific giver has to win. */
function isPersistent({ persistent, deliveryMode }: AmqpProperties): boolean | undefined {
  if (persistent !== undefined) return Boolean(persistent);
  return deliveryMode === undefined ? undefined : deliveryMode === true || deliveryMode === 2;
}
