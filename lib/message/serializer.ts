import { isUtf8 } from 'node:buffer';
import { types } from 'node:util';
import { checkProperties, type AmqpProperties } from './amqp-properties';
import { InvalidMessageError } from './invalid-message.error';

/** From payload to body, in the manner of golevelup's `serializer` option. Called at `publish()`. */
export type PayloadSerializer = (payload: unknown) => Uint8Array | string;

/** Makes the bodies of all messages, e.g. Avro, Protobuf or MessagePack. */
export interface MessageSerializer {
  /**
   * Called at `publish()`, before any SQL. Payloads that are bytes already do not come here.
   *
   * @param message where the message goes, and its properties as far as the caller has given them
   * @throws whatever makes `publish()` throw an `InvalidMessageError` with it as cause
   */
  serialize(payload: unknown, message: MessageEnvelope): SerializedPayload;
}

/** A message without its payload. */
export interface MessageEnvelope {
  readonly exchange: string;
  readonly routingKey: string;
  readonly properties: Readonly<AmqpProperties>;
}

/** What a {@link MessageSerializer} makes of a payload. */
export interface SerializedPayload {
  /** The bytes on the wire; a string is sent as UTF-8. */
  readonly body: Uint8Array | string;
  /** E.g. `application/vnd.msgpack`. What the caller of `publish()` has given wins, here and below. */
  readonly contentType?: string;
  /** E.g. `gzip`. */
  readonly contentEncoding?: string;
}

/** A body as a text column holds it; `Buffer.from(body, bodyEncoding)` are the bytes on the wire. */
export interface SerializedBody {
  readonly body: string;
  readonly bodyEncoding: 'utf8' | 'base64';
}

/** A body, and what the serializer says about it. */
export interface SerializedContent extends SerializedBody {
  readonly properties?: Pick<AmqpProperties, 'contentType' | 'contentEncoding'>;
}

const NOWHERE: MessageEnvelope = { exchange: '', routingKey: '', properties: {} };

/**
 * Makes the body exactly as it will be sent; what happens to the payload later has no effect.
 *
 * - Buffers and other byte arrays are the body.
 * - Everything else goes through `JSON.stringify`, `null` too (a body of four bytes).
 * - `undefined`, functions and symbols have no JSON, a BigInt or a cycle makes it throw, and a Map, a Set, a Promise and
 *   the like would silently become `{}`: refused.
 *
 * With a serializer of one's own, all but bytes and `undefined` is up to that.
 *
 * @throws {InvalidMessageError} naming what cannot be sent
 */
export function serialize(
  payload: unknown,
  serializer?: PayloadSerializer | MessageSerializer,
  message: MessageEnvelope = NOWHERE,
): SerializedContent {
  if (payload instanceof Uint8Array) return { body: base64(payload), bodyEncoding: 'base64' };
  if (payload === undefined) {
    throw new InvalidMessageError('payload', payload, 'Give null for a message without content');
  }
  if (serializer === undefined || (typeof serializer === 'function' && isPlainJson(serializer))) {
    // JSON escapes U+0000 and lone surrogates, so this is always valid text for the column.
    return { body: toJson(payload), bodyEncoding: 'utf8' };
  }
  return custom(payload, serializer, message);
}

function custom(
  payload: unknown,
  serializer: PayloadSerializer | MessageSerializer,
  message: MessageEnvelope,
): SerializedContent {
  const { body: result, contentType, contentEncoding } = called(payload, serializer, message);
  const made = checkProperties({ contentType, contentEncoding });
  if (typeof result !== 'string' && !(result instanceof Uint8Array)) {
    throw new InvalidMessageError(
      'payload',
      payload,
      `The serializer returned ${typeof result} as the body; it has to return a Buffer or a string`,
    );
  }
  const bytes = Buffer.from(result as Uint8Array);
  const properties = Object.keys(made).length > 0 ? { properties: made } : {};
  // As text where possible, for whoever looks into the table.
  return isUtf8(bytes) && !bytes.includes(0)
    ? { body: bytes.toString('utf8'), bodyEncoding: 'utf8', ...properties }
    : { body: base64(bytes), bodyEncoding: 'base64', ...properties };
}

/** What came back is checked, since it need not be what the types say. */
function called(
  payload: unknown,
  serializer: PayloadSerializer | MessageSerializer,
  message: MessageEnvelope,
): { body?: unknown; contentType?: string; contentEncoding?: string } {
  try {
    if (typeof serializer === 'function') return { body: serializer(payload) };
    return { ...serializer.serialize(payload, message) };
  } catch (cause) {
    throw new InvalidMessageError('payload', payload, `The serializer threw: ${messageOf(cause)}`, { cause });
  }
}

function toJson(payload: unknown): string {
  let json: string | undefined;
  try {
    json = JSON.stringify(payload);
    // What is lossy comes out as {}. So only where there is one is each value looked at, which takes five times as long.
    if (json?.includes('{}')) json = JSON.stringify(payload, refuseLossy);
  } catch (cause) {
    if (cause instanceof InvalidMessageError) throw cause;
    throw new InvalidMessageError(
      'payload',
      payload,
      `It has no JSON form (${messageOf(cause)}); convert it first, a BigInt to a string for example`,
      { cause },
    );
  }
  if (json === undefined) {
    throw new InvalidMessageError('payload', payload, 'It has no JSON form; give a value that has one');
  }
  return json;
}

const LOSSY: readonly [test: (value: unknown) => boolean, remedy: string][] = [
  [types.isMap, 'JSON would make {} of a Map; give Object.fromEntries(map) or [...map]'],
  [types.isSet, 'JSON would make {} of a Set; give [...set]'],
  [types.isPromise, 'JSON would make {} of a Promise; await it first'],
  [types.isNativeError, 'JSON would make {} of an Error; give its message'],
  [types.isRegExp, 'JSON would make {} of a RegExp; give its source'],
  [types.isWeakMap, 'JSON would make {} of a WeakMap'],
  [types.isWeakSet, 'JSON would make {} of a WeakSet'],
  [types.isAnyArrayBuffer, 'JSON would make {} of an ArrayBuffer; give Buffer.from(arrayBuffer)'],
  [types.isDataView, 'JSON would make {} of a DataView; give a Buffer'],
];

/** `JSON.stringify` calls it with what `toJSON()` has made of a value, so a Map that knows its JSON form is fine. */
function refuseLossy(this: unknown, name: string, value: unknown): unknown {
  if (typeof value === 'object' && value !== null) {
    const lossy = LOSSY.find(([test]) => test(value));
    // An Error with properties of its own is data; JSON keeps those.
    if (lossy && Object.keys(value).length === 0) {
      throw new InvalidMessageError(name === '' ? 'payload' : `payload (at "${name}")`, value, lossy[1]);
    }
  }
  return value;
}

const jsonSerializers = new WeakMap<PayloadSerializer, boolean>();

/** golevelup's default serializer is made anew for each connection; it is known by what it does. */
function isPlainJson(serializer: PayloadSerializer): boolean {
  let isJson = jsonSerializers.get(serializer);
  if (isJson === undefined) {
    try {
      const probe = { text: '\0', map: new Map([[1, 2]]), date: new Date(0), list: [undefined] };
      isJson = Buffer.from(serializer(probe) as Uint8Array).toString() === JSON.stringify(probe);
    } catch {
      isJson = false;
    }
    jsonSerializers.set(serializer, isJson);
  }
  return isJson;
}

function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64');
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
