/** Identity of a message for one consumer: the primary key of the inbox table. */
export interface InboxKey {
  readonly consumer: string;
  readonly messageId: string;
}

/** A message kept in the inbox table with everything needed to handle it again. */
export interface KeptMessage extends InboxKey {
  readonly exchange: string;
  readonly routingKey: string;
  /** As the broker said when it delivered it. */
  readonly redelivered: boolean;
  readonly body: Buffer;
  /** Encoded by `message/`; `null` for none. */
  readonly headers: string | null;
  readonly properties: string | null;
  /** `null`: no order promised. */
  readonly orderingKey: string | null;
}

/** A message of the inbox table that belongs to this process for the time of its lease. */
export interface ClaimedInboxMessage extends KeptMessage {
  /** Position in the order of storing, as text. */
  readonly seq: string;
  /** Runs that have failed so far, and runs that never came back, as far as they were counted. */
  readonly attempts: number;
  readonly lastError: string | null;
  /** Somebody claimed it before and never came back: it may be what killed the process. */
  readonly suspect: boolean;
}
