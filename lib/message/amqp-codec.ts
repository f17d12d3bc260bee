/**
 * Headers and properties as JSON text, for a text column. What JSON has no form for gets one in the manner of amqplib,
 * which writes typed values as `{ '!': type, value }`; the types that start with `$` are ours:
 *
 * - `$buffer`: bytes, as base64
 * - `$bigint`: decimal digits
 * - `$number`: `NaN`, `Infinity`, `-Infinity`, `-0`
 * - `$table`: an object that has a property `!` of its own, as entries; somebody else's client may send such a header
 *
 * Strings may contain anything: JSON escapes U+0000 and lone surrogates.
 */
export type AmqpTable = Record<string, unknown>;

/** @returns `null` when there is nothing to keep; properties that are undefined are left out */
export function encodeTable(table: Readonly<AmqpTable> | undefined): string | null {
  if (table === undefined) return null;
  const entries = encodeEntries(table);
  return entries.length === 0 ? null : JSON.stringify(Object.fromEntries(entries));
}

/**
 * @returns `undefined` for `null`
 * @throws {SyntaxError} for text that was not made by {@link encodeTable}
 */
export function decodeTable(text: string | null): AmqpTable | undefined {
  if (text === null) return undefined;
  const table: unknown = JSON.parse(text);
  if (typeof table !== 'object' || table === null || Array.isArray(table)) {
    throw new SyntaxError(`Not a table of headers or properties: ${text.slice(0, 100)}`);
  }
  return Object.fromEntries(Object.entries(table).map(([name, value]) => [name, decodeValue(value)]));
}

function encodeEntries(table: object): [string, unknown][] {
  return Object.entries(table)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => [name, encodeValue(value)]);
}

function encodeValue(value: unknown): unknown {
  switch (typeof value) {
    case 'bigint':
      return tagged('$bigint', value.toString());
    case 'number':
      return Number.isFinite(value) && !Object.is(value, -0)
        ? value
        : tagged('$number', Object.is(value, -0) ? '-0' : String(value));
    case 'object':
      return value === null ? null : encodeObject(value);
    default:
      return value;
  }
}

function encodeObject(value: object): unknown {
  if (value instanceof Uint8Array) return tagged('$buffer', Buffer.from(value).toString('base64'));
  if (Array.isArray(value)) return value.map(encodeValue);
  if (!Object.hasOwn(value, '!')) return Object.fromEntries(encodeEntries(value));
  if (isTyped(value)) return tagged(value['!'], encodeValue(value.value));
  return tagged('$table', encodeEntries(value));
}

/** What amqplib itself reads and writes as a typed value: just these two properties, and a type that is not ours. */
function isTyped(value: object): value is { '!': string; value: unknown } {
  const type = (value as { '!': unknown })['!'];
  return (
    typeof type === 'string' &&
    !type.startsWith('$') &&
    Object.keys(value).length === 2 &&
    Object.hasOwn(value, 'value')
  );
}

const tagged = (type: string, value: unknown) => ({ '!': type, value });

function decodeValue(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(decodeValue);
  if (!Object.hasOwn(value, '!')) return decodeEntries(Object.entries(value));
  const { '!': type, value: inner } = value as { '!': string; value: unknown };
  switch (type) {
    case '$buffer':
      return Buffer.from(inner as string, 'base64');
    case '$bigint':
      return BigInt(inner as string);
    case '$number':
      return Number(inner);
    case '$table':
      return decodeEntries(inner as [string, unknown][]);
    default:
      return tagged(type, decodeValue(inner));
  }
}

function decodeEntries(entries: [string, unknown][]): AmqpTable {
  return Object.fromEntries(entries.map(([name, value]) => [name, decodeValue(value)]));
}
