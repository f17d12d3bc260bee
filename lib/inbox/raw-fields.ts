import type { AmqpTable } from '../message/amqp-codec';

/**
 * Where a message came from, as AMQP has it. Its short strings may contain U+0000, which a text column refuses for ever: the
 * message could not be kept, its delivery would be held until the end of days, and with it all that share a statement with it.
 * So the columns show `\0`, and what the handler is to see stands among the properties, whose JSON escapes it.
 */
export interface RawFields {
  readonly exchange: string;
  readonly routingKey: string;
}

/** No AMQP property has such a name: they are a fixed set. */
const RAW_FIELDS = '$fields';

/** @returns what the columns can hold */
export function storableFields({ exchange, routingKey }: RawFields): RawFields {
  return { exchange: withoutNul(exchange), routingKey: withoutNul(routingKey) };
}

/** @returns the properties to be kept */
export function withRawFields(properties: AmqpTable, fields: RawFields): AmqpTable {
  const isStorable = !`${fields.exchange}${fields.routingKey}`.includes('\0');
  return isStorable ? properties : { ...properties, [RAW_FIELDS]: { ...fields } };
}

/** The other way round. @returns fields only where they are not those of the columns */
export function takeRawFields(kept: AmqpTable): { properties: AmqpTable; fields: Partial<RawFields> } {
  const { [RAW_FIELDS]: fields, ...properties } = kept;
  return { properties, fields: fields ?? {} };
}

const withoutNul = (text: string): string => text.replaceAll('\0', '\\0');
