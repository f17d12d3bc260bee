import type { QueryRunner } from 'typeorm';

/** Identity of a message for one consumer: the primary key of the inbox table. */
export interface InboxKey {
  readonly consumer: string;
  readonly messageId: string;
}

/** A message kept in the inbox table with everything needed to handle it again. */
export interface KeptMessage extends InboxKey {
  readonly exchange: string;
  readonly routingKey: string;
  readonly body: Buffer;
  /** Encoded by `message/`; `null` for none. */
  readonly headers: string | null;
  readonly properties: string | null;
}

/** What the inbox asks of a database (P1). Every method runs on the given runner and never begins or ends a transaction. */
export interface InboxStatements {
  /** P1 step 1. @returns deliveries counted so far, or `undefined` when the row is past `seen`: a duplicate. */
  countRedelivery(runner: QueryRunner, key: InboxKey): Promise<number | undefined>;

  /** P1 step 2, the first statement of the handler's transaction. @returns false for a duplicate. */
  take(runner: QueryRunner, key: InboxKey): Promise<boolean>;

  /** P1 step 6, policy `reject`: the row stays `seen` with its error, so that a later replay is handled. */
  recordFailure(runner: QueryRunner, key: InboxKey, error: string): Promise<void>;

  /** Keeps a message as `dead` with its body and error, unless its row is past `seen`. @returns whether a row changed */
  bury(runner: QueryRunner, message: KeptMessage, error: string): Promise<boolean>;

  /** Deletes at most `limit` rows that were done more than `olderThan` milliseconds ago; others never. */
  deleteDone(runner: QueryRunner, olderThan: number, limit: number): Promise<number>;
}
