import { InvalidMessageError } from './invalid-message.error';
import { headerTable } from './amqp-headers';
import { shortText } from './text-checks';

/** What AMQP carries beside the body, under the names that `AmqpConnection.publish()` takes. */
export interface AmqpProperties {
  /** E.g. `application/json`. Default: none, as with `AmqpConnection.publish()`. */
  contentType?: string;
  contentEncoding?: string;
  /** Whether the broker writes the message to disk. Default true. */
  persistent?: boolean;
  /** amqplib's other name for it: 1 or false, 2 or true. */
  deliveryMode?: boolean | number;
  /** 0 to 255. */
  priority?: number;
  correlationId?: string;
  replyTo?: string;
  /** Milliseconds that the message may wait in a queue, 0 to 4,294,967,295. */
  expiration?: string | number;
  type?: string;
  appId?: string;
  /** The broker refuses any other than the connection's own user. */
  userId?: string;
  /** Seconds since 1970. Default: when the message was published. */
  timestamp?: number;
  /** Further routing keys that the receivers can see. */
  CC?: string | string[];
  /** Further routing keys that the receivers cannot see. */
  BCC?: string | string[];
  /**
   * Strings, numbers, booleans, null, Buffers, arrays and plain objects of them; a `bigint` is sent as a 64-bit integer;
   * amqplib's `{ '!': 'timestamp', value: seconds }` and its other typed values work too. Refused: dates (AMQP has whole
   * seconds only, so say which form is meant), functions, symbols, other classes. At most 64 KB in all.
   */
  headers?: Record<string, unknown>;
}

/** The broker closes the channel for a longer time to live. */
const MAX_EXPIRATION = 2 ** 32 - 1;

const byteRange = (field: string, value: unknown): number => integer(field, value, 255);

const checks: { [Name in keyof AmqpProperties]-?: (field: string, value: unknown) => unknown } = {
  contentType: shortText,
  contentEncoding: shortText,
  persistent: boolean,
  deliveryMode: (field, value) => (typeof value === 'boolean' ? value : oneOrTwo(field, value)),
  priority: byteRange,
  correlationId: shortText,
  replyTo: shortText,
  expiration,
  type: shortText,
  appId: shortText,
  userId: shortText,
  timestamp: (field, value) => integer(field, value, Number.MAX_SAFE_INTEGER),
  CC: routingKeys,
  BCC: routingKeys,
  headers: headerTable,
};

export const AMQP_PROPERTY_NAMES = Object.keys(checks) as readonly (keyof AmqpProperties)[];

/**
 * The properties as they can be sent, with headers made plain; those that are undefined are left out.
 *
 * @throws {InvalidMessageError} for what AMQP cannot carry
 */
export function checkProperties(properties: AmqpProperties): AmqpProperties {
  const checked: [string, unknown][] = [];
  for (const name of AMQP_PROPERTY_NAMES) {
    const value = properties[name];
    if (value !== undefined) checked.push([name, checks[name](name, value)]);
  }
  const { deliveryMode, ...rest } = Object.fromEntries(checked) as AmqpProperties;
  // One name for it, so that a default for the other cannot win over what was given; amqplib lets `persistent` win too.
  return deliveryMode === undefined
    ? rest
    : { persistent: deliveryMode === true || deliveryMode === 2, ...rest };
}

function boolean(field: string, value: unknown): boolean {
  if (typeof value !== 'boolean') throw new InvalidMessageError(field, value, 'Give true or false');
  return value;
}

function oneOrTwo(field: string, value: unknown): number {
  if (value !== 1 && value !== 2) {
    throw new InvalidMessageError(field, value, 'Give 1 (not persistent) or 2 (persistent)');
  }
  return value;
}

function integer(field: string, value: unknown, maximum: number): number {
  if (typeof value !== 'number' || !Number.isInteger(value) || value < 0 || value > maximum) {
    const hint = value instanceof Date ? '; seconds are Math.floor(date.getTime() / 1000)' : '';
    throw new InvalidMessageError(field, value, `Give a whole number from 0 to ${maximum}${hint}`);
  }
  return value;
}

function expiration(field: string, value: unknown): string {
  if (typeof value === 'string' && /^\d{1,10}$/.test(value) && Number(value) <= MAX_EXPIRATION) return value;
  return String(integer(field, value, MAX_EXPIRATION));
}

function routingKeys(field: string, value: unknown): string[] {
  return (Array.isArray(value) ? (value as unknown[]) : [value]).map((key, index) =>
    shortText(`${field}[${index}]`, key),
  );
}
