import type { ClaimedMessage } from '../../../lib/persistence/outbox-statements';
import { toAmqpMessage } from '../../../lib/transport/rabbitmq/amqp-message';

const row = (overrides: Partial<ClaimedMessage> = {}): ClaimedMessage => ({
  seq: '1',
  messageId: 'id-1',
  exchange: 'ex',
  routingKey: 'key',
  body: '{"a":1}',
  bodyEncoding: 'utf8',
  headers: null,
  properties: null,
  orderingKey: null,
  attempts: 0,
  retry: null,
  transport: 'rabbitmq',
  createdAt: new Date('2026-01-02T03:04:05.678Z'),
  expired: false,
  ...overrides,
});

describe('toAmqpMessage', () => {
  it('is persistent, mandatory, dated, and carries the id of the row', () => {
    expect(toAmqpMessage(row())).toEqual({
      messageId: 'id-1',
      exchange: 'ex',
      routingKey: 'key',
      body: Buffer.from('{"a":1}'),
      options: { persistent: true, mandatory: true, messageId: 'id-1', timestamp: 1_767_323_045 },
    });
  });

  it("the publisher's properties win over defaultPublishOptions, and those over the module's", () => {
    const { options } = toAmqpMessage(
      row({ properties: '{"type":"row","priority":3}', headers: '{"x":1}' }),
      {
        type: 'default',
        appId: 'billing',
        persistent: false,
        headers: { y: 1 },
        timestamp: 7,
      },
    );
    expect(options).toMatchObject({
      type: 'row',
      priority: 3,
      appId: 'billing',
      persistent: false,
      headers: { x: 1 },
      timestamp: 7,
    });
  });

  it.each([
    ['{"deliveryMode":1}', {}, false],
    ['{"deliveryMode":1}', { persistent: true }, false],
    ['{"deliveryMode":true}', { persistent: false }, true],
    ['{"persistent":true}', { deliveryMode: 1 }, true],
    [null, { deliveryMode: 1 }, false],
  ])('%s with defaults %j is persistent: %s', (properties, defaults, persistent) => {
    expect(toAmqpMessage(row({ properties }), defaults).options.persistent).toBe(persistent);
  });

  it('neither the id nor mandatory is up for choice', () => {
    const { options } = toAmqpMessage(row({ properties: '{"messageId":"x","mandatory":false}' }), {
      mandatory: false,
    });
    expect(options).toMatchObject({ messageId: 'id-1', mandatory: true });
  });

  it('binary bodies and headers arrive byte for byte', () => {
    const bytes = Buffer.from([0, 255, 1]);
    const { body, options } = toAmqpMessage(
      row({
        body: bytes.toString('base64'),
        bodyEncoding: 'base64',
        headers: `{"b":{"!":"$buffer","value":"${bytes.toString('base64')}"}}`,
      }),
    );
    expect(body).toEqual(bytes);
    expect(options.headers).toEqual({ b: bytes });
  });

  it('what cannot be read is the fault of the row', () => {
    expect(() => toAmqpMessage(row({ headers: 'not json' }))).toThrow();
    expect(() => toAmqpMessage(row({ properties: '[1]' }))).toThrow();
  });
});
