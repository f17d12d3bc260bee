import { InvalidMessageError } from '../../../lib/message/invalid-message.error';
import { serialize, type PayloadSerializer } from '../../../lib/message/serializer';

const utf8 = (body: string) => ({ body, bodyEncoding: 'utf8' });
const base64 = (bytes: number[]) => ({ body: Buffer.from(bytes).toString('base64'), bodyEncoding: 'base64' });

describe('The body of a message', () => {
  it.each<[unknown, string]>([
    [[1, 2, 3], '[1,2,3]'],
    ['text', '"text"'],
    ['', '""'],
    [0, '0'],
    [false, 'false'],
    [null, 'null'],
    [{ a: undefined }, '{}'],
    [{ a: 'x\0y', b: '\ud800' }, '{"a":"x\\u0000y","b":"\\ud800"}'],
    [new Date(0), '"1970-01-01T00:00:00.000Z"'],
    [{ toJSON: () => ({ b: 1 }) }, '{"b":1}'],
    [Object.assign(new Map(), { toJSON: () => [1] }), '[1]'],
    [Object.assign(new Error('lost'), { code: 'E1' }), '{"code":"E1"}'],
  ])('of %p is %s', (payload, body) => {
    expect(serialize(payload)).toEqual(utf8(body));
  });

  it('is the bytes themselves where the payload is bytes', () => {
    expect(serialize(Buffer.from([0, 255]))).toEqual(base64([0, 255]));
    expect(serialize(new Uint8Array([1, 2, 3, 4]).subarray(1, 3))).toEqual(base64([2, 3]));
    expect(serialize(Buffer.alloc(0))).toEqual(base64([]));
  });

  const cycle: Record<string, unknown> = {};
  cycle.self = cycle;
  it.each<[string, unknown, RegExp]>([
    ['undefined', undefined, /payload is undefined.*null/],
    ['a function', () => 1, /payload is \[Function/],
    ['a symbol', Symbol('s'), /payload is Symbol\(s\)/],
    ['a BigInt', 10n, /payload is 10n.*string/],
    ['a BigInt inside', { id: 10n }, /BigInt/],
    ['a cycle', cycle, /circular/],
    [
      'toJSON that throws',
      {
        toJSON: () => {
          throw new Error('why');
        },
      },
      /why/,
    ],
    ['a Map inside', { user: { roles: new Map([[1, 2]]) } }, /payload \(at "roles"\).*Object\.fromEntries/],
    ['a Set', new Set([1]), /\[\.\.\.set\]/],
    ['a promise that was not awaited', Promise.resolve(1), /await it first/],
    ['an Error', new Error('lost'), /its message/],
    ['a RegExp', /x/, /its source/],
    ['an ArrayBuffer', new ArrayBuffer(2), /Buffer\.from/],
  ])('refuses %s', (_, payload, message) => {
    expect(() => serialize(payload)).toThrow(InvalidMessageError);
    expect(() => serialize(payload)).toThrow(message);
  });

  describe('with a serializer', () => {
    it('is what it returns, as text where that is possible', () => {
      expect(serialize({}, () => Buffer.from('größe'))).toEqual(utf8('größe'));
      expect(serialize({}, () => '<a/>')).toEqual(utf8('<a/>'));
      expect(serialize({}, () => 'a\0b')).toEqual(base64([97, 0, 98]));
      expect(serialize({}, () => Buffer.from([0xff]))).toEqual(base64([0xff]));
    });

    it('may take what JSON cannot, but not undefined, and not bytes, which are sent as they are', () => {
      const asEntries: PayloadSerializer = (payload) => JSON.stringify([...(payload as Map<number, number>)]);
      expect(serialize(new Map([[1, 2]]), asEntries)).toEqual(utf8('[[1,2]]'));
      expect(() => serialize(undefined, asEntries)).toThrow(InvalidMessageError);
      expect(serialize(Buffer.from([1]), asEntries)).toEqual(base64([1]));
    });

    it("is checked as JSON when the serializer is golevelup's default one", () => {
      const golevelup: PayloadSerializer = (value) => Buffer.from(JSON.stringify(value));
      expect(serialize({ a: 1 }, golevelup)).toEqual(utf8('{"a":1}'));
      expect(() => serialize({ a: new Map() }, golevelup)).toThrow(/Object\.fromEntries/);
    });

    it('refuses a serializer that throws or returns something else', () => {
      const throwing = () => {
        throw new Error('why');
      };
      expect(() => serialize({}, throwing)).toThrow(/The serializer threw: why/);
      expect(() => serialize({}, (() => 1) as unknown as PayloadSerializer)).toThrow(/returned number/);
    });
  });
});
