import { v7 as uuidv7 } from 'uuid';
import { encodeTable } from '../message/amqp-codec';
import { AMQP_PROPERTY_NAMES, checkProperties } from '../message/amqp-properties';
import { toMilliseconds, type Duration } from '../message/duration';
import { InvalidMessageError } from '../message/invalid-message.error';
import { encodeRetry } from '../message/message-retry';
import { serialize, type MessageSerializer, type PayloadSerializer } from '../message/serializer';
import { STORABLE_DATES, storableDate } from '../message/storable-date';
import { identifier, storableText } from '../message/text-checks';
import type { OutboxInsert } from '../persistence/outbox-statements';
import { checkOptionNames } from './option-names';
import type { OutboxMessage, PublishOptions } from './publish-options';

/** Without `manager`, which has been used up by then. */
const KNOWN: readonly string[] = [
  ...AMQP_PROPERTY_NAMES,
  ...([
    'messageId',
    'orderingKey',
    'deliverAt',
    'delay',
    'expiresAt',
    'deduplicationKey',
    'onDuplicate',
    'retry',
  ] as const),
] satisfies readonly (keyof PublishOptions)[];

/**
 * A message as it is written, checked for all that the database or the broker could refuse later.
 *
 * @throws {InvalidMessageError}
 */
export function toOutboxInsert(
  message: OutboxMessage,
  serializer?: PayloadSerializer | MessageSerializer,
): OutboxInsert {
  const { exchange, routingKey, payload, options = {} } = message;
  checkOptionNames(options, KNOWN, (name) =>
    name === 'mandatory'
      ? 'Leave it out: the outbox always publishes with it, so that an unroutable message is not lost'
      : `The outbox knows no such option; it knows ${KNOWN.join(', ')}`,
  );
  const { messageId, orderingKey, deduplicationKey, onDuplicate, retry, ...rest } = options;
  const { deliverAt, delay, expiresAt, ...properties } = rest;
  if (deliverAt !== undefined && delay !== undefined) {
    throw new InvalidMessageError('delay', delay, 'Give either deliverAt or delay');
  }
  const checked = checkProperties(properties);
  const address = checkAddress(exchange, routingKey);
  const { properties: made, ...content } = serialize(payload, serializer, {
    ...address,
    properties: checked,
  });
  const { headers, ...others } = { ...made, ...checked };
  return {
    messageId: messageId === undefined ? uuidv7() : identifier('messageId', messageId),
    ...address,
    ...content,
    headers: encodeTable(headers),
    properties: encodeTable(others),
    orderingKey: orderingKey === undefined ? null : identifier('orderingKey', orderingKey),
    deduplicationKey:
      deduplicationKey === undefined ? null : identifier('deduplicationKey', deduplicationKey),
    deliverAt: deliverAt === undefined ? undefined : checkDate('deliverAt', deliverAt),
    delay: delay === undefined ? undefined : checkDelay(delay),
    expiresAt: expiresAt === undefined ? undefined : checkDate('expiresAt', expiresAt),
    retry: encodeRetry(retry),
    ...(onDuplicate !== undefined && { onDuplicate: checkListener(onDuplicate) }),
  };
}

function checkListener(onDuplicate: unknown): OutboxInsert['onDuplicate'] {
  if (typeof onDuplicate === 'function') return onDuplicate as OutboxInsert['onDuplicate'];
  throw new InvalidMessageError('onDuplicate', onDuplicate, 'Give a function');
}

/** Both empty would be the default exchange without a queue: unroutable for ever. */
function checkAddress(exchange: unknown, routingKey: unknown): { exchange: string; routingKey: string } {
  const address = {
    exchange: storableText('exchange', exchange),
    routingKey: storableText('routingKey', routingKey),
  };
  if (address.exchange === '' && address.routingKey === '') {
    throw new InvalidMessageError(
      'routingKey',
      routingKey,
      'On the default exchange (an empty name) give the name of a queue as routing key',
    );
  }
  return address;
}

function checkDate(field: string, date: unknown): Date {
  const checked = storableDate(date);
  if (!checked) throw new InvalidMessageError(field, date, `Give ${STORABLE_DATES}`);
  return checked;
}

function checkDelay(delay: Duration): number {
  try {
    return toMilliseconds('delay', delay);
  } catch (cause) {
    throw new InvalidMessageError(
      'delay',
      delay,
      "Give milliseconds, or a duration such as '30s' or '2h', up to a century",
      { cause },
    );
  }
}
