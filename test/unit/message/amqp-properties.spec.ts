import { checkProperties, type AmqpProperties } from '../../../lib/message/amqp-properties';
import { InvalidMessageError } from '../../../lib/message/invalid-message.error';

const long = 'é'.repeat(128);

describe('AMQP properties', () => {
  it('are kept as amqplib takes them', () => {
    const properties: AmqpProperties = {
      contentType: 'application/json',
      contentEncoding: 'gzip',
      persistent: false,
      priority: 255,
      correlationId: '',
      replyTo: 'r',
      expiration: 60_000,
      type: 't',
      appId: 'a',
      userId: 'u',
      timestamp: 0,
      CC: 'one',
      BCC: ['two'],
    };
    expect(checkProperties({ ...properties, headers: undefined })).toEqual({
      ...properties,
      expiration: '60000',
      CC: ['one'],
    });
  });

  it('know one name for persistence', () => {
    const persistent = (properties: AmqpProperties) => checkProperties(properties).persistent;
    expect([1, 2, false, true].map((deliveryMode) => persistent({ deliveryMode }))).toEqual([
      ...[false, true],
      ...[false, true],
    ]);
    expect(checkProperties({ deliveryMode: 2, persistent: false })).toEqual({ persistent: false });
    expect(checkProperties({})).toEqual({});
  });

  it.each<[string, unknown]>([
    ['contentType', long],
    ['contentEncoding', 1],
    ['correlationId', 42],
    ['correlationId', '\ud800'],
    ['replyTo', long],
    ['type', null],
    ['appId', {}],
    ['userId', long],
    ['persistent', 1],
    ['deliveryMode', 3],
    ['priority', -1],
    ['priority', 256],
    ['priority', 1.5],
    ['priority', NaN],
    ['expiration', -1],
    ['expiration', '1s'],
    ['expiration', 2 ** 32],
    ['expiration', '4294967296'],
    ['timestamp', new Date()],
    ['timestamp', -1],
    ['CC', [1]],
    ['BCC', long],
    ['headers', []],
    ['headers', 'h'],
    ['headers', new Map()],
  ])('refuse %s: %p', (name, value) => {
    const call = () => checkProperties({ [name]: value });
    expect(call).toThrow(InvalidMessageError);
    expect(call).toThrow(name);
  });

  describe('headers', () => {
    const headers = (value: Record<string, unknown>) => checkProperties({ headers: value }).headers;

    it('are copied into what amqplib can encode', () => {
      const bytes = Buffer.from([1, 2]);
      const given = {
        text: 'ü\0',
        number: 1.5,
        yes: true,
        nothing: null,
        missing: undefined,
        big: 5n,
        bytes,
        array: [1, 'a', [null]],
        table: Object.assign(Object.create(null) as object, { a: { b: 1 } }),
        typedArray: new Uint8Array([3]),
        when: { '!': 'timestamp', value: 1_700_000_000 },
        price: { '!': 'decimal', value: { places: 2, digits: 199 } },
        bigTyped: { '!': 'int64', value: 7n },
      };
      const checked = headers(given);
      expect(checked).toEqual({
        ...{ text: 'ü\0', number: 1.5, yes: true, nothing: null },
        big: { '!': 'int64', value: 5 },
        bytes: Buffer.from([1, 2]),
        array: [1, 'a', [null]],
        table: { a: { b: 1 } },
        typedArray: Buffer.from([3]),
        when: { '!': 'timestamp', value: 1_700_000_000 },
        price: { '!': 'decimal', value: { places: 2, digits: 199 } },
        bigTyped: { '!': 'int64', value: 7 },
      });
      bytes[0] = 9;
      expect(checked!.bytes).toEqual(Buffer.from([1, 2]));
    });

    const cycle: Record<string, unknown> = {};
    cycle.self = cycle;
    let deep: Record<string, unknown> = {};
    for (let i = 0; i < 1_000; i++) deep = { deep };
    it.each<[string, Record<string, unknown>, string]>([
      ['a function', { f: () => 1 }, 'headers.f'],
      ['a symbol', { s: Symbol('s') }, 'headers.s'],
      ['undefined in an array', { a: [undefined] }, 'headers.a[0]'],
      ['NaN', { a: { n: NaN } }, 'headers.a.n'],
      ['Infinity', { n: -Infinity }, 'headers.n'],
      ['a BigInt beyond 2^53', { n: 2n ** 53n }, 'headers.n'],
      ['a Date', { d: new Date() }, 'toISOString'],
      ['a Map', { m: new Map() }, 'headers.m'],
      ['an object of a class', { c: new (class Money {})() }, 'headers.c'],
      ['a cycle', cycle, 'contains itself'],
      ['a depth of 1,000', deep, 'deeper than 100'],
      ['a name of 256 bytes', { [long]: 1 }, '255'],
      ['half an emoji', { t: '\ud83d' }, 'surrogate'],
      ['an unknown type', { t: { '!': 'money', value: 1 } }, 'has no such type'],
      ['an int8 of 128', { t: { '!': 'int8', value: 128 } }, 'from -128 to 127'],
      ['a decimal without digits', { t: { '!': 'decimal', value: {} } }, 'digits'],
      ['a float that is text', { t: { '!': 'double', value: '1' } }, 'Give a number'],
      ['more than amqplib takes', { a: 'x'.repeat(40_000), b: 'x'.repeat(40_000) }, '65536 bytes'],
    ])('refuse %s', (_, value, message) => {
      expect(() => headers(value)).toThrow(InvalidMessageError);
      expect(() => headers(value)).toThrow(message);
    });
  });
});
