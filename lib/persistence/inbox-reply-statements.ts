import type { QueryRunner } from 'typeorm';
import type { InboxKey } from './inbox-message';

/** Replies to RPC requests. */
export interface InboxReplyStatements {
  /** Writes the reply into the row that this transaction has taken. Its bytes are what goes on the wire; none for an empty one. */
  keepReply(runner: QueryRunner, key: InboxKey, reply: Buffer): Promise<void>;
}
