import type { InboundMessage } from '../../../lib/inbox/inbound-message';
import { MessageIdError } from '../../../lib/inbox/message-id.error';
import { fingerprintOf, readMessageId } from '../../../lib/inbox/message-id';

const message = (messageId?: unknown, body = '{}', routingKey = 'a.b'): InboundMessage => ({
  content: Buffer.from(body),
  fields: { exchange: 'x', routingKey, redelivered: false },
  properties: { messageId },
});
const read = (value: unknown) => readMessageId(message(), () => value as string);

describe('the id of a message', () => {
  it.each([undefined, null, '', ' ', '\t\n'])('C12: %j counts as none', (value) => {
    expect(read(value)).toBeUndefined();
  });

  it('is the AMQP property by default, byte for byte', () => {
    expect(readMessageId(message(' Ä x '))).toBe(' Ä x ');
  });

  it('C12: numbers and their strings are one id, a bigint is exact', () => {
    expect(read(42)).toBe(read('42'));
    expect(read(0)).toBe('0');
    expect(read(9007199254740993n)).toBe('9007199254740993');
    expect(read(9007199254740992n)).not.toBe(read(9007199254740993n));
  });

  it.each([NaN, Infinity, 1.5, 2 ** 53, true, {}, [], Symbol('s'), () => 1])(
    'refuses %p as an id',
    (value) => {
      expect(() => read(value)).toThrow(MessageIdError);
    },
  );

  it('C14: takes 255 bytes, and refuses more instead of cutting', () => {
    expect(read('é'.repeat(127))).toHaveLength(127);
    expect(read('x'.repeat(255))).toHaveLength(255);
    expect(() => read('é'.repeat(128))).toThrow(/longer than 255 bytes/);
    expect(() => read('x'.repeat(100_000))).toThrow(/it has 100000\)/);
  });

  it('refuses what the database would refuse or change', () => {
    expect(() => read('a\0b')).toThrow(/NUL/);
    expect(() => read('a\ud800')).toThrow(/Unicode/);
  });

  it('says that the reader threw', () => {
    const broken = () => {
      throw new TypeError('no such property');
    };
    expect(() => readMessageId(message(), broken)).toThrow(
      /the messageId option threw: TypeError: no such property/,
    );
  });

  it('a fingerprint is the same for the same routing key and body only', () => {
    const fingerprint = fingerprintOf(message(undefined, 'body', 'key'));
    expect(fingerprint).toMatch(/^sha256:[0-9a-f]{64}$/);
    expect(fingerprintOf(message('other id', 'body', 'key'))).toBe(fingerprint);
    expect(fingerprintOf(message(undefined, 'ybody', 'ke'))).not.toBe(fingerprint);
  });
});
