import type { QueryRunner } from 'typeorm';

/** Default for how long a deduplication key is remembered after its message was sent, in milliseconds: 24 hours. */
export const DEDUPLICATION_RETENTION = 24 * 3_600_000;

/** What takes a message: a broker, or a handler in a process of the application, named by `routingKey`. */
export type OutboxTransport = 'rabbitmq' | 'local';

/** A message as it is written into the outbox table. */
export interface OutboxInsert {
  /** Default `rabbitmq`. */
  readonly transport?: OutboxTransport;
  readonly messageId: string;
  readonly exchange: string;
  readonly routingKey: string;
  readonly body: string;
  /** `base64` for binary payloads; `utf8` otherwise. */
  readonly bodyEncoding: 'utf8' | 'base64';
  /** Encoded by `message/`; `null` for none. */
  readonly headers: string | null;
  /** Encoded by `message/`; `null` for none. */
  readonly properties: string | null;
  readonly orderingKey: string | null;
  readonly deduplicationKey: string | null;
  /** Planned date as an instant, or milliseconds from the database's now; neither: at once. */
  readonly deliverAt?: Date;
  readonly delay?: number;
  readonly expiresAt?: Date;
  /** The message's own retry policy, encoded by `message/`; none: the one for all. */
  readonly retry?: string | null;
  /** Told the id of the message that has the deduplication key, when that was taken. */
  readonly onDuplicate?: (messageId: string) => void;
}

/** A message that this process has claimed. */
export interface ClaimedMessage {
  /** Sequence as decimal text: it may exceed 2^53. */
  readonly seq: string;
  readonly messageId: string;
  readonly transport: string;
  readonly exchange: string;
  readonly routingKey: string;
  readonly body: string;
  readonly bodyEncoding: 'utf8' | 'base64';
  readonly headers: string | null;
  readonly properties: string | null;
  readonly orderingKey: string | null;
  /** Attempts before this one. */
  readonly attempts: number;
  /** The message's own retry policy, as it was inserted. */
  readonly retry: string | null;
  readonly createdAt: Date;
  /** Whether `expiresAt` had passed on the database's clock when the row was claimed. */
  readonly expired: boolean;
}

export interface ClaimRequest {
  readonly token: string;
  /** Milliseconds on the database's clock. */
  readonly lease: number;
  readonly limit: number;
  /** Messages without a key are looked for behind this sequence. Default: all. Those with a key always from the start. */
  readonly after?: string;
  /** Whether a dead message stops its key: then nothing of such a key is claimed. Default false. */
  readonly haltOnDead?: boolean;
}

/** How the messages of one claim ended. Whatever is in none of the lists stays claimed until its lease ends. */
export interface Settlement {
  readonly token: string;
  readonly sent: readonly string[];
  readonly failed: readonly FailedMessage[];
  /** Given back as they were: not tried, or with an unknown outcome. No attempt is used up. */
  readonly released: readonly string[];
  /**
   * Not to be tried for a while, with no attempt used up. They stay claimed for that long, so that nothing of their keys
   * overtakes them. Default: none.
   */
  readonly postponed?: readonly PostponedMessage[];
  /**
   * Keep sent rows with the status `sent` instead of deleting them. Rows with a deduplication key are kept in any case,
   * until `deleteSent`.
   */
  readonly keepSent: boolean;
}

export interface PostponedMessage {
  readonly seq: string;
  /** Milliseconds. */
  readonly delay: number;
}

export interface SettlementResult {
  /** How many rows still belonged to the token; the others were left alone. */
  readonly settled: number;
  /** Sequences of those that became dead. */
  readonly dead: readonly string[];
}

export interface FailedMessage {
  readonly seq: string;
  readonly error: string;
  /** Milliseconds until the next attempt, or `'dead'`. */
  readonly next: number | 'dead';
}

/** What the outbox asks of a database. Every method runs on the given runner and never begins or ends a transaction. */
export interface OutboxStatements {
  /**
   * Writes messages in the caller's transaction, in the order given, in one statement (P2: a lock per ordering key is
   * taken before the sequence value is drawn).
   *
   * @param deduplicationRetention milliseconds since a message was sent after which its deduplication key is free, whether
   *   it was cleaned away or not. Default {@link DEDUPLICATION_RETENTION}
   * @returns the ids in the order given; for a deduplication key that is taken, the id of the message that has it
   * @throws {DuplicateMessageError} when a message id exists already; the transaction can then only be rolled back
   */
  insert(
    runner: QueryRunner,
    messages: readonly OutboxInsert[],
    deduplicationRetention?: number,
  ): Promise<string[]>;

  /**
   * Whether a claim could find anything: one cheap statement, no lock. Also true for messages behind a key that waits.
   *
   * @param after as in {@link ClaimRequest}
   */
  anythingDue(runner: QueryRunner, after?: string): Promise<boolean>;

  /** @returns milliseconds until the next planned date, negative when it has passed; `undefined` when nothing is planned */
  untilNextDate(runner: QueryRunner): Promise<number | undefined>;

  /** P3, steps 2–4, inside a READ COMMITTED transaction of the caller's. Sorted by sequence. */
  claim(runner: QueryRunner, request: ClaimRequest): Promise<ClaimedMessage[]>;

  /** Extends the lease of those that still belong to the token. Returns how many rows that were. */
  renew(runner: QueryRunner, token: string, lease: number, seqs: readonly string[]): Promise<number>;

  /** P3, step 6, inside a transaction of the caller's. */
  settle(runner: QueryRunner, settlement: Settlement): Promise<SettlementResult>;

  /**
   * Deletes at most `limit` sent rows that were settled more than `olderThan` milliseconds ago; dead and open ones never,
   * and those with a deduplication key not before the `deduplicationRetention` (default {@link DEDUPLICATION_RETENTION}).
   *
   * @returns how many, so that the caller can go on until it is less than `limit`
   */
  deleteSent(
    runner: QueryRunner,
    olderThan: number,
    limit: number,
    deduplicationRetention?: number,
  ): Promise<number>;
}
