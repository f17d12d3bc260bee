import { InvalidMessageError } from './invalid-message.error';
import { shortText, text } from './text-checks';

/** amqplib writes a message's headers into a buffer of this many bytes, and throws when they do not fit. */
const MAX_BYTES = 65_536;

const MAX_DEPTH = 100;

/** The integer types of amqplib's `{ '!': type, value }`, each with its range. */
const INTEGERS: Record<string, readonly [minimum: number, maximum: number]> = {
  byte: [-(2 ** 7), 2 ** 7 - 1],
  int8: [-(2 ** 7), 2 ** 7 - 1],
  unsignedbyte: [0, 2 ** 8 - 1],
  uint8: [0, 2 ** 8 - 1],
  short: [-(2 ** 15), 2 ** 15 - 1],
  int16: [-(2 ** 15), 2 ** 15 - 1],
  unsignedshort: [0, 2 ** 16 - 1],
  uint16: [0, 2 ** 16 - 1],
  int: [-(2 ** 31), 2 ** 31 - 1],
  int32: [-(2 ** 31), 2 ** 31 - 1],
  unsignedint: [0, 2 ** 32 - 1],
  uint32: [0, 2 ** 32 - 1],
  long: [Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER],
  int64: [Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER],
  timestamp: [0, Number.MAX_SAFE_INTEGER],
};

const FLOATS = new Set(['double', 'float64', 'float']);

/**
 * A copy of the headers that amqplib can encode, in plain objects. As amqplib does, it leaves out what is undefined.
 *
 * @throws {InvalidMessageError} naming the header that cannot be sent
 */
export function headerTable(field: string, headers: unknown): Record<string, unknown> {
  if (!isPlainObject(headers)) throw new InvalidMessageError(field, headers, 'Give a plain object');
  const walk = new HeaderWalk();
  const table = walk.table(field, headers);
  if (walk.bytes > MAX_BYTES) {
    throw new InvalidMessageError(
      field,
      `${walk.bytes} bytes`,
      `AMQP clients take ${MAX_BYTES} bytes of headers; put large values into the payload`,
    );
  }
  return table;
}

/** Checks, copies and measures (as amqplib encodes it) in one pass. */
class HeaderWalk {
  bytes = 0;
  private readonly ancestors: unknown[] = [];

  table(field: string, object: object): Record<string, unknown> {
    return this.inside(field, object, () => {
      this.bytes += 4;
      const entries = Object.entries(object).filter(([, value]) => value !== undefined);
      return Object.fromEntries(
        entries.map(([name, value]) => {
          this.bytes += 1 + Buffer.byteLength(headerName(field, name));
          return [name, this.value(`${field}.${name}`, value)];
        }),
      );
    });
  }

  private value(field: string, value: unknown): unknown {
    this.bytes += 1;
    switch (typeof value) {
      case 'string':
        this.bytes += 4 + Buffer.byteLength(text(field, value));
        return value;
      case 'number':
        this.bytes += 8;
        if (Number.isFinite(value)) return value;
        throw new InvalidMessageError(field, value, 'Give a finite number');
      case 'boolean':
        this.bytes += 1;
        return value;
      case 'bigint':
        this.bytes += 8;
        return { '!': 'int64', value: safeInteger(field, value) };
      case 'object':
        return value === null ? null : this.object(field, value);
      default:
        throw new InvalidMessageError(field, value, 'AMQP has no such type; leave it out or give a string');
    }
  }

  private object(field: string, value: object): unknown {
    if (value instanceof Uint8Array) {
      this.bytes += 4 + value.length;
      // A copy: the caller may reuse its buffer. Only a Buffer is binary to amqplib.
      return Buffer.from(value);
    }
    if (Array.isArray(value)) {
      return this.inside(field, value, () => {
        this.bytes += 4;
        return Array.from(value as unknown[], (each, index) => this.value(`${field}[${index}]`, each));
      });
    }
    if (value instanceof Date) {
      throw new InvalidMessageError(
        field,
        value,
        "AMQP's timestamps have whole seconds; say which form is meant: date.toISOString(), or " +
          "{ '!': 'timestamp', value: Math.floor(date.getTime() / 1000) }",
      );
    }
    if (!isPlainObject(value)) {
      throw new InvalidMessageError(field, value, 'Give a plain object, or a string made of it');
    }
    return Object.hasOwn(value, '!') ? this.typed(field, value) : this.table(field, value);
  }

  /** amqplib's way to choose the type: `{ '!': type, value }`. */
  private typed(field: string, { '!': type, value }: Record<string, unknown>): unknown {
    const range = INTEGERS[String(type)];
    if (range) {
      this.bytes += 8;
      const number = typeof value === 'bigint' ? safeInteger(field, value) : value;
      if (!Number.isInteger(number) || (number as number) < range[0] || (number as number) > range[1]) {
        throw new InvalidMessageError(field, value, `Give a whole number from ${range[0]} to ${range[1]}`);
      }
      return { '!': type, value: number };
    }
    if (FLOATS.has(String(type))) {
      this.bytes += 8;
      if (typeof value === 'number') return { '!': type, value };
      throw new InvalidMessageError(field, value, 'Give a number');
    }
    if (type === 'decimal') {
      this.bytes += 5;
      const { places, digits } = (value ?? {}) as { places?: unknown; digits?: unknown };
      if (isIntegerUpTo(places, 255) && isIntegerUpTo(digits, 2 ** 32 - 1)) {
        return { '!': type, value: { places, digits } };
      }
      throw new InvalidMessageError(field, value, 'Give { places: 0 to 255, digits: 0 to 4294967295 }');
    }
    throw new InvalidMessageError(
      field,
      type,
      "amqplib takes an object with the property '!' for a typed value, and has no such type",
    );
  }

  private inside<T>(field: string, object: object, walk: () => T): T {
    if (this.ancestors.includes(object) || this.ancestors.length === MAX_DEPTH) {
      throw new InvalidMessageError(
        field,
        object,
        `It contains itself, or is deeper than ${MAX_DEPTH} levels`,
      );
    }
    this.ancestors.push(object);
    const result = walk();
    this.ancestors.pop();
    return result;
  }
}

function headerName(field: string, name: string): string {
  shortText(`the name ${JSON.stringify(name)} in ${field}`, name);
  // amqplib calls this method on each nested object.
  if (name === 'hasOwnProperty')
    throw new InvalidMessageError(`a name in ${field}`, name, 'Choose another name');
  return name;
}

function safeInteger(field: string, value: bigint): number {
  const number = Number(value);
  if (Number.isSafeInteger(number)) return number;
  throw new InvalidMessageError(
    field,
    value,
    'amqplib cannot send integers beyond ±(2^53 − 1) without rounding them; give a string',
  );
}

function isIntegerUpTo(value: unknown, maximum: number): boolean {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) <= maximum;
}

export function isPlainObject(value: unknown): value is Record<string, unknown> {
  if (typeof value !== 'object' || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  // Objects of another realm (a vm, a test runner) have an Object.prototype of their own.
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}
