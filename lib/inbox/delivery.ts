import { encodeTable } from '../message/amqp-codec';
import type { MessageContext } from '../message/message-context';
import type { KeptMessage, InboxKey } from '../persistence/inbox-statements';
import type { OnDuplicate, OnFailure, OnMissingId, Processing } from '../inbox-outbox.options';
import type { RetryPolicy } from '../message/retry-policy';
import type { IsolationLevel } from '../transaction/transaction-scope';
import type { MessageIdReader, OrderingKeyReader } from './idempotent.options';
import type { FingerprintReader } from './content-hash';
import type { InboundMessage } from './inbound-message';
import { storableFields, withRawFields } from './raw-fields';

/** How one handler wants its messages treated, defaults filled in. */
export interface HandlerPolicy {
  /** Identity in the inbox table. */
  readonly consumer: string;
  readonly messageId: MessageIdReader | undefined;
  readonly onMissingId: OnMissingId;
  readonly onDuplicate: OnDuplicate;
  readonly processing: Processing;
  readonly orderingKey: OrderingKeyReader | undefined;
  readonly onFailure: OnFailure;
  /** Runs until a message is dead. */
  readonly maxAttempts: number;
  readonly retry: RetryPolicy;
  /** `true`: of the body. */
  readonly fingerprint: boolean | FingerprintReader;
  readonly errorReply: ((error: unknown) => unknown) | undefined;
  /** Milliseconds. */
  readonly timeout: number | undefined;
  readonly isolationLevel: IsolationLevel | undefined;
}

/** How golevelup calls a handler: with one message, with one whose reply somebody waits for, with many at once. */
export type HandlerKind = 'single' | 'rpc' | 'batch';

/** One message that came for one handler. */
export interface Delivery {
  readonly policy: HandlerPolicy;
  readonly message: InboundMessage;
  /** The payload as golevelup has decoded it. May throw. */
  readonly payload: () => unknown;
  /** Runs everything inside the interceptor: inner interceptors, pipes, the handler. May be called more than once. */
  readonly handle: () => Promise<unknown>;
}

/** A delivery whose message id is known, or known to be missing. */
export interface IdentifiedDelivery extends Delivery {
  /** `undefined`: handled without protection (`onMissingId: 'process'`). */
  readonly key: InboxKey | undefined;
  readonly orderingKey: string | undefined;
  /** The table owns the message, and this process has claimed it. */
  readonly claim?: DeliveryClaim;
  /** See {@link InboxContext.attempt}. */
  readonly attempt: number;
}

/** What a message that the table owns is taken with. */
export interface DeliveryClaim {
  readonly token: string;
  /** Ends the renewal of its lease; to be awaited right before its transaction begins. */
  readonly leave: () => Promise<void>;
}

/** What is run in a transaction together with the row of its message. */
export interface TransactionalWork
  extends
    Pick<IdentifiedDelivery, 'key' | 'attempt' | 'handle'>,
    Partial<Pick<IdentifiedDelivery, 'orderingKey' | 'claim'>> {
  readonly policy: Pick<HandlerPolicy, 'consumer' | 'onDuplicate' | 'timeout' | 'isolationLevel'>;
  /** It is run in a transaction of the application, which goes on after it. */
  readonly isJoining?: boolean;
  /** Absent where the work is not about a message of the broker's. */
  readonly message?: InboundMessage;
}

/** For the log: which message, for whom. */
export function describe({
  policy,
  key,
}: {
  readonly policy: Pick<HandlerPolicy, 'consumer'>;
  readonly key: InboxKey | undefined;
}): string {
  return key
    ? `message ${JSON.stringify(key.messageId)} for ${policy.consumer}`
    : `message for ${policy.consumer}`;
}

/** What is passed on to the messages that the handler publishes. */
export function messageContextOf({ key, message }: TransactionalWork): MessageContext {
  const { correlationId, headers = {} } = message?.properties ?? {};
  return {
    messageId: key?.messageId,
    correlationId: typeof correlationId === 'string' && correlationId !== '' ? correlationId : undefined,
    headers,
  };
}

/** Everything that is needed to handle the message once more. */
export function keptMessage(key: InboxKey, message: InboundMessage, orderingKey?: string): KeptMessage {
  const { headers, ...properties } = message.properties;
  const { exchange, routingKey } = message.fields;
  return {
    ...key,
    ...storableFields({ exchange, routingKey }),
    // Stand-ins for a broker leave it out.
    redelivered: message.fields.redelivered === true,
    body: message.content,
    // No headers and an empty table of headers are two things to a handler.
    headers: headers === undefined ? null : (encodeTable(headers) ?? '{}'),
    properties: encodeTable(withRawFields(properties, { exchange, routingKey })),
    orderingKey: orderingKey ?? null,
  };
}
