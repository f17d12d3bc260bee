import type { EntityManager } from 'typeorm';
import type { AmqpProperties } from '../message/amqp-properties';
import type { Duration } from '../message/duration';
import type { MessageRetryOptions } from '../message/message-retry';

/** Options of `OutboxService.publish()`: AMQP's properties under golevelup's names, and what the outbox adds. */
export interface PublishOptions extends AmqpProperties {
  /** Not blank, at most 255 bytes, unique. Default: a new UUIDv7. Receivers tell duplicates by it. */
  messageId?: string;
  /**
   * Messages with the same key first reach the broker in the order in which their transactions committed. Those that
   * publish the same key wait for each other until they commit, so publish late, and several keys with `publishMany()`.
   * At most 255 bytes.
   */
  orderingKey?: string;
  /** Not to be sent before this date, on the database's clock. A date that is past means at once. */
  deliverAt?: Date;
  /** Not to be sent before this much time has passed on the database's clock. Not together with `deliverAt`. */
  delay?: Duration;
  /** When this date has passed and the message was not sent, it counts as failed for good. */
  expiresAt?: Date;
  /**
   * While a message with the same key is in the outbox, or was sent less than `outbox.deduplicationRetention` (24 hours) ago,
   * the call writes nothing and returns that one's id. At most 255 bytes.
   */
  deduplicationKey?: string;
  /**
   * Called when nothing was written because the deduplication key is taken, with the id of the message that has it; the call
   * returns that id too. What it throws, the call throws. An option and not another kind of result, so that it works for
   * every call that publishes, for each message of a batch too, and `publish()` simply returns an id.
   */
  onDuplicate?: (messageId: string) => void;
  /** Attempts and pauses of this message, stored with it. What it leaves out is as in the module's options. */
  retry?: MessageRetryOptions;
  /**
   * The transaction to write in, e.g. `queryRunner.manager` of one that is driven by hand. Default: the active one. For
   * `publishMany()` it is an argument of its own.
   */
  manager?: EntityManager;
}

/** Options of `OutboxService.enqueue()`. What they mean is told at {@link PublishOptions}. */
export interface EnqueueOptions extends Pick<
  PublishOptions,
  'messageId' | 'deliverAt' | 'delay' | 'expiresAt' | 'deduplicationKey' | 'retry' | 'manager'
> {
  /**
   * Messages with the same key for the same handler are handled one after the other, in the order in which their
   * transactions committed. Those that enqueue or publish the same key wait for each other until they commit. At most 255
   * bytes.
   */
  orderingKey?: string;
  /** What the handler finds in its context: strings, numbers, booleans, nested as in AMQP. */
  headers?: Record<string, unknown>;
}

/** One message of `OutboxService.enqueueMany()`. */
export interface EnqueuedMessage {
  /** Name of the `@OutboxHandler()`. */
  handler: string;
  /** See `OutboxService.enqueue()`. */
  payload: unknown;
  options?: Omit<EnqueueOptions, 'manager'>;
}

/** One message of `OutboxService.publishMany()`. */
export interface OutboxMessage {
  /** Empty for the default exchange, where the routing key is a queue's name. */
  exchange: string;
  /** May be empty where the exchange is not, e.g. for a fanout exchange. */
  routingKey: string;
  /** See `OutboxService.publish()`. */
  payload: unknown;
  options?: Omit<PublishOptions, 'manager'>;
}

export interface PublishManyOptions {
  /** The transaction to write in. Default: the active one. */
  manager?: EntityManager;
}
