import type { AmqpTable } from '../message/amqp-codec';

/** Names one dead message. What `list()` gave will do. */
export type DeadLetterId =
  | { readonly box: 'outbox'; readonly messageId: string }
  | { readonly box: 'inbox'; readonly messageId: string; readonly consumer: string };

/** Which dead messages are meant: everything given has to match, and what is left out may be anything. */
export type DeadLetterFilter =
  | (CommonFilter & {
      readonly box: 'outbox';
      /** `rabbitmq`, or `local` for the methods of `@OutboxHandler()`, whose name is the routing key. */
      readonly transport?: string;
    })
  | (CommonFilter & {
      readonly box: 'inbox';
      /** The identity of the `@Idempotent()` handler. */
      readonly consumer?: string;
    });

interface CommonFilter {
  readonly exchange?: string;
  readonly routingKey?: string;
  /** At this date or later, on the database's clock. */
  readonly diedAfter?: Date;
  /** Before this date. */
  readonly diedBefore?: Date;
  /** Upper and lower case alike. */
  readonly errorContains?: string;
}

/** What `list()` takes. */
export type DeadLetterQuery = DeadLetterFilter & {
  /** 1 to 1,000. Default 100. */
  readonly limit?: number;
  /** The `next` of the page before. */
  readonly after?: string;
};

/** A message that was given up. */
export type DeadLetter =
  | (CommonLetter & { readonly box: 'outbox'; readonly transport: string })
  | (CommonLetter & { readonly box: 'inbox'; readonly consumer: string });

interface CommonLetter {
  readonly messageId: string;
  readonly exchange: string;
  readonly routingKey: string;
  readonly orderingKey: string | null;
  /** How often it was tried. */
  readonly attempts: number;
  /** Of the last attempt. It stays readable after a replay, until the next attempt has an error of its own. */
  readonly error: string | null;
  /** When it was published, or came in. */
  readonly storedAt: Date;
  readonly diedAt: Date;
}

/** A dead message with what was to be sent or handled. */
export type DeadLetterDetails = DeadLetter & {
  readonly body: Buffer;
  /** The text of the column where it cannot be read, which may be why the message is dead. */
  readonly headers: AmqpTable | string | null;
  /** Likewise. */
  readonly properties: AmqpTable | string | null;
};

export interface DeadLetterPage {
  /** The ones stored last come first. */
  readonly letters: readonly DeadLetter[];
  /** For `after`, to get the next page; none on the last one. */
  readonly next?: string;
}
