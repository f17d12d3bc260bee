import { isUtf8 } from 'node:buffer';
import { isDeepStrictEqual } from 'node:util';
import type { MessageDeserializer } from '@golevelup/nestjs-rabbitmq';
import type { Subscription } from './handler-checks';
import type { InboundMessage } from './inbound-message';
import { UndecodableBodyError } from './undecodable-body.error';

export type BodyDecoder = (message: InboundMessage) => unknown;

/** Marks a deserializer of ours, and keeps what it stands in for. */
const REPLACES = Symbol('nestjs-inbox-outbox:deserializer');

type Marked = MessageDeserializer & { [REPLACES]?: { original: MessageDeserializer | undefined } };

export function markAsOurDeserializer(
  ours: MessageDeserializer,
  original: MessageDeserializer | undefined,
): MessageDeserializer {
  return Object.assign(ours, { [REPLACES]: { original } });
}

export function withoutOurDeserializer(
  deserializer: MessageDeserializer | undefined,
): MessageDeserializer | undefined {
  const replaced = (deserializer as Marked | undefined)?.[REPLACES];
  return replaced ? replaced.original : deserializer;
}

/**
 * Decodes a message's body as golevelup does for this subscription, with two differences:
 *
 * - An empty body that the deserializer cannot read is an `undefined` payload: golevelup's own `publish()` sends it for that.
 * - Bytes that are no UTF-8 are not read as text: each one that does not fit would silently become U+FFFD.
 *
 * @returns throws {@link UndecodableBodyError} for a body that cannot be read
 */
export function bodyDecoder(subscription: Subscription | undefined): BodyDecoder {
  const { effective, connection } = subscription ?? {};
  const deserialize =
    withoutOurDeserializer(effective?.deserializer) ?? connection?.configuration.deserializer;
  const asText = effective?.allowNonJsonMessages === true;
  return (message) => {
    const { content } = message;
    let payload: unknown;
    try {
      payload = deserialize?.(content, message as never) as unknown;
    } catch (cause) {
      if (asText) return content.toString();
      if (content.length === 0) return undefined;
      throw new UndecodableBodyError(content.length, reasonOf(cause, message), { cause });
    }
    if (!asText && !isUtf8(content) && wasReadAsText(payload, content)) {
      throw new UndecodableBodyError(content.length, reasonOf('it is text that is not UTF-8', message));
    }
    return payload;
  };
}

function wasReadAsText(payload: unknown, content: Buffer): boolean {
  try {
    return isDeepStrictEqual(payload, JSON.parse(content.toString()));
  } catch {
    return false;
  }
}

function reasonOf(cause: unknown, { properties }: InboundMessage): string {
  const reason = cause instanceof Error ? cause.message : String(cause);
  const encoding = properties['contentEncoding'];
  // The usual culprit, and the error of a JSON parser does not name it.
  return typeof encoding === 'string' && encoding !== ''
    ? `${reason} (content encoding ${encoding})`
    : reason;
}
