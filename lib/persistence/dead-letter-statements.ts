import type { QueryRunner } from 'typeorm';

/** Which dead messages are meant; everything given has to match. */
export interface DeadLetterCriteria {
  readonly messageId?: string;
  /** The outbox's transport, or the inbox's consumer. */
  readonly owner?: string;
  readonly exchange?: string;
  readonly routingKey?: string;
  /** At this date or later. */
  readonly diedAfter?: Date;
  /** Before this date. */
  readonly diedBefore?: Date;
  /** Upper and lower case alike. */
  readonly errorContains?: string;
}

export interface DeadLetterRow {
  /** Order of storing, as decimal text. */
  readonly seq: string;
  readonly messageId: string;
  readonly owner: string;
  readonly exchange: string;
  readonly routingKey: string;
  readonly orderingKey: string | null;
  readonly attempts: number;
  readonly error: string | null;
  readonly storedAt: Date;
  readonly diedAt: Date;
}

export interface DeadLetterContent extends DeadLetterRow {
  readonly body: Buffer;
  /** Encoded by `message/`; `null` for none. */
  readonly headers: string | null;
  readonly properties: string | null;
}

/** A bounded part of a change to many rows, in the order of storing. */
export interface DeadLetterBatch {
  /** Only what was stored behind this sequence. */
  readonly after: string;
  readonly limit: number;
}

/**
 * The dead messages of one table. A change to one message waits for whoever has its row locked; a change to many leaves
 * locked rows to whoever has them.
 */
export interface DeadLetterStatements {
  /** Newest first. @param before only what was stored before this sequence */
  list(
    runner: QueryRunner,
    criteria: DeadLetterCriteria,
    page: { readonly before: string | undefined; readonly limit: number },
  ): Promise<DeadLetterRow[]>;

  find(runner: QueryRunner, criteria: DeadLetterCriteria): Promise<DeadLetterContent | undefined>;

  /** Makes messages as if they had never been tried, but for their last error. @returns the sequences of those changed */
  replay(runner: QueryRunner, criteria: DeadLetterCriteria, batch: DeadLetterBatch): Promise<string[]>;

  /** @returns the sequences of those discarded */
  discard(runner: QueryRunner, criteria: DeadLetterCriteria, batch: DeadLetterBatch): Promise<string[]>;
}
