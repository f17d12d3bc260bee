import { decodeTable, encodeTable, type AmqpTable } from '../../../lib/message/amqp-codec';

/** amqplib's own codec: what it can encode must come back the same after it was kept as text. */
// eslint-disable-next-line @typescript-eslint/no-require-imports
const wire = require('amqplib/lib/codec.js') as {
  encodeTable(buffer: Buffer, table: AmqpTable, offset: number): number;
  decodeFields(slice: Buffer): AmqpTable;
};

function overTheWire(table: AmqpTable): AmqpTable {
  const buffer = Buffer.alloc(65_536);
  const size = wire.encodeTable(buffer, table, 0);
  return wire.decodeFields(buffer.subarray(4, size));
}

const keep = (table: AmqpTable) => decodeTable(encodeTable(table));

describe('Headers and properties as text', () => {
  const table: AmqpTable = {
    text: 'a\0b 👩‍👩‍👧‍👦',
    lone: '\ud800',
    number: 1.5,
    zero: 0,
    no: false,
    nothing: null,
    bytes: Buffer.from([0, 255]),
    array: [1, [Buffer.of(1)], { a: null }],
    nested: {
      when: { '!': 'timestamp', value: 1_700_000_000 },
      price: { '!': 'decimal', value: { places: 1, digits: 2 } },
    },
    ['__proto__']: 'own',
  };

  it('come back as they were', () => {
    expect(keep(table)).toEqual(table);
  });

  it('come back as they were when they are what amqplib has read from the wire', () => {
    const { lone: _, ...sendable } = table;
    const received = overTheWire(sendable);
    expect(keep(received)).toEqual(received);
    expect(overTheWire(keep(received)!)).toEqual(received);
  });

  it('keep what JSON has no form for', () => {
    const odd = { big: 2n ** 63n, nan: NaN, infinite: -Infinity, minusZero: -0, typed: new Uint8Array([1]) };
    expect(keep(odd)).toEqual({ ...odd, typed: Buffer.of(1) });
  });

  it("keep a foreign table that has a property '!' of its own", () => {
    for (const foreign of [
      { '!': 'warning' },
      { '!': '$buffer', value: 'AAA=' },
      { '!': 1, value: 2 },
      { '!': 'timestamp', value: 1, more: 2 },
    ]) {
      expect(keep({ h: foreign, list: [foreign] })).toEqual({ h: foreign, list: [foreign] });
    }
  });

  it('are null when there are none, and leave out what is undefined', () => {
    expect(encodeTable(undefined)).toBeNull();
    expect(encodeTable({ contentType: undefined })).toBeNull();
    expect(encodeTable({ contentType: undefined, type: 't' })).toBe('{"type":"t"}');
    expect(decodeTable(null)).toBeUndefined();
  });

  it('hold no U+0000, which a text column refuses', () => {
    expect(encodeTable(table)).not.toContain('\0');
  });

  it('are refused when they were not made here', () => {
    expect(() => decodeTable('no')).toThrow(SyntaxError);
    expect(() => decodeTable('[1]')).toThrow(SyntaxError);
  });
});
