import { readTable } from '../message/stored-message';
import type { ClaimedInboxMessage } from '../persistence/inbox-message';
import type { InboundMessage } from './inbound-message';
import { takeRawFields } from './raw-fields';

/** All that amqplib gives a message, with `undefined` for what it does not have. */
const NO_PROPERTIES = {
  contentType: undefined,
  contentEncoding: undefined,
  headers: undefined,
  deliveryMode: undefined,
  priority: undefined,
  correlationId: undefined,
  replyTo: undefined,
  expiration: undefined,
  messageId: undefined,
  timestamp: undefined,
  type: undefined,
  userId: undefined,
  appId: undefined,
  clusterId: undefined,
};

/**
 * The message as amqplib gave it when it was delivered. `redelivered` is true when it was so then, and for each run after the
 * first. It came through no channel, so it has no delivery tag that could be acked.
 *
 * @throws {DamagedMessageError} for a row that was changed by hand
 */
export function rawMessage(row: ClaimedInboxMessage): InboundMessage {
  const { properties, fields } = takeRawFields(readTable('properties', row.properties) ?? {});
  const headers = readTable('headers', row.headers);
  return {
    content: row.body,
    fields: {
      consumerTag: '',
      deliveryTag: 0,
      redelivered: row.redelivered || row.attempts > 0 || row.suspect,
      exchange: row.exchange,
      routingKey: row.routingKey,
      ...fields,
    } as InboundMessage['fields'],
    properties: { ...NO_PROPERTIES, ...properties, headers },
  };
}
