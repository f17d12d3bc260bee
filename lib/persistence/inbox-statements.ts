import type { QueryRunner } from 'typeorm';
import type { InboxKey, KeptMessage } from './inbox-message';
import type { InboxBatchStatements } from './inbox-batch-statements';
import type { InboxFingerprintStatements } from './inbox-fingerprint-statements';
import type { InboxReplyStatements } from './inbox-reply-statements';
import type { KeptInboxStatements } from './kept-inbox-statements';

export type { InboxKey, KeptMessage } from './inbox-message';

/** What the inbox asks of a database (P1). Every method runs on the given runner and never begins or ends a transaction. */
export interface InboxStatements
  extends InboxBatchStatements, InboxFingerprintStatements, InboxReplyStatements, KeptInboxStatements {
  /** P1 step 1. @returns redeliveries counted so far, or `undefined` when the row is past `seen`: a duplicate. */
  countRedelivery(runner: QueryRunner, key: InboxKey): Promise<number | undefined>;

  /**
   * P1 step 2, the first statement of the handler's transaction.
   *
   * @param looksFirst whether it is to find out without waiting, and without locking the row, that the message is a duplicate: of
   *   one that is settled, or that the table owns and somebody handles. Default: true
   * @returns false for a duplicate
   */
  take(runner: QueryRunner, key: InboxKey, looksFirst?: boolean): Promise<boolean>;

  /** P1 step 6, policy `reject`: the row stays `seen` with its error, so that a later replay is handled. */
  recordFailure(runner: QueryRunner, key: InboxKey, error: string): Promise<void>;

  /** Keeps a message as `dead` with its body and error, unless its row is past `seen`. @returns whether a row changed */
  bury(runner: QueryRunner, message: KeptMessage, error: string): Promise<boolean>;

  /** Deletes at most `limit` rows that were done more than `olderThan` milliseconds ago; others never. */
  deleteDone(runner: QueryRunner, olderThan: number, limit: number): Promise<number>;
}
