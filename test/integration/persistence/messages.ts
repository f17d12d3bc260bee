import { randomUUID } from 'node:crypto';
import type { OutboxInsert } from '../../../lib/persistence/outbox-statements';

/** A row to insert, with as little as possible in it. */
export function outboxRow(values: Partial<OutboxInsert> = {}): OutboxInsert {
  return {
    messageId: randomUUID(),
    exchange: 'e',
    routingKey: 'r',
    body: '{}',
    bodyEncoding: 'utf8',
    headers: null,
    properties: null,
    orderingKey: null,
    deduplicationKey: null,
    ...values,
  };
}
