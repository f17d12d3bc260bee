import { InvalidMessageError } from '../../../lib/message/invalid-message.error';
import type { OutboxMessage } from '../../../lib/outbox/publish-options';
import { toOutboxInsert } from '../../../lib/outbox/to-outbox-insert';

const row = (message: Partial<OutboxMessage> = {}) =>
  toOutboxInsert({ exchange: 'e', routingKey: 'r', payload: 1, ...message });

describe('A message of the outbox', () => {
  it('has nothing but what was given', () => {
    const { messageId, ...rest } = row();
    expect(messageId).toMatch(/^[0-9a-f-]{36}$/);
    expect(rest).toEqual({
      ...{ exchange: 'e', routingKey: 'r', body: '1', bodyEncoding: 'utf8' },
      ...{ headers: null, properties: null, orderingKey: null, deduplicationKey: null, retry: null },
    });
  });

  it('has an id that sorts behind those made before', () => {
    const ids = Array.from({ length: 1_000 }, () => row().messageId);
    expect([...ids].sort()).toEqual(ids);
  });

  it('keeps a copy of its dates', () => {
    const deliverAt = new Date('2030-01-01');
    const { deliverAt: kept } = row({ options: { deliverAt } });
    deliverAt.setFullYear(2031);
    expect(kept).toEqual(new Date('2030-01-01'));
    expect(row({ options: { delay: '2h' } }).delay).toBe(7_200_000);
  });

  it('carries a retry policy of its own, in milliseconds', () => {
    expect(row({ options: { retry: { maxAttempts: 3, backoff: { initialDelay: '5s' } } } }).retry).toBe(
      '{"maxAttempts":3,"backoff":{"initialDelay":5000}}',
    );
    expect(row({ options: { retry: { maxAttempts: Infinity } } }).retry).toBe('{"maxAttempts":"Infinity"}');
    expect(row({ options: { retry: {} } }).retry).toBeNull();
  });

  it.each<[string, string]>([
    ['', 'queue'],
    ['fanout', ''],
    ['größe', 'é'.repeat(127)],
  ])('may go to exchange "%s" with routing key "%s"', (exchange, routingKey) => {
    expect(row({ exchange, routingKey })).toMatchObject({ exchange, routingKey });
  });

  it.each<[string, unknown, unknown]>([
    ['routingKey', '', ''],
    ['exchange', undefined, 'r'],
    ['exchange', null, 'r'],
    ['routingKey', 'e', undefined],
    ['routingKey', 'e', 1],
    ['routingKey', 'e', 'é'.repeat(128)],
    ['exchange', 'a\0', 'r'],
    ['routingKey', 'e', '\udc00'],
  ])('may not have that %s (case %#)', (field, exchange, routingKey) => {
    const call = () => row({ exchange, routingKey } as OutboxMessage);
    expect(call).toThrow(InvalidMessageError);
    expect(call).toThrow(field);
  });

  it.each<[string, object]>([
    ['messageId', { messageId: '' }],
    ['messageId', { messageId: 42 }],
    ['messageId', { messageId: null }],
    ['orderingKey', { orderingKey: ' ' }],
    ['orderingKey', { orderingKey: 'x'.repeat(256) }],
    ['deduplicationKey', { deduplicationKey: '' }],
    ['deliverAt', { deliverAt: new Date(Date.UTC(10_000, 0)) }],
    ['deliverAt', { deliverAt: new Date('0000-12-31T23:59:59Z') }],
    ['expiresAt', { expiresAt: 'tomorrow' }],
    ['onDuplicate', { onDuplicate: 'ignore' }],
    ['retry.maxAttempts', { retry: { maxAttempts: 0 } }],
    ['retry.backoff.factor', { retry: { backoff: { factor: 0.5 } } }],
    ['retry.backof', { retry: { backof: {} } }],
    ['retry', { retry: 3 }],
    ['retry.backoff', { retry: { backoff: () => 5 } }],
    ['delay', { delay: -1 }],
    ['delay', { delay: Infinity }],
    ['delay', { delay: 'soon' }],
    ['delay', { delay: 1, deliverAt: new Date() }],
    ['mandatory', { mandatory: true }],
    ['manager', { manager: {} }],
    ['routingkey', { routingkey: 'x' }],
  ])('may not have that %s (case %#)', (field, options) => {
    const call = () => row({ options });
    expect(call).toThrow(InvalidMessageError);
    expect(call).toThrow(field);
  });
});
