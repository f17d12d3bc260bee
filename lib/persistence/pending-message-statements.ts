import type { QueryRunner } from 'typeorm';

/** Changes to an outbox message that is neither under way nor at its end: ready or scheduled, and not claimed. */
export interface PendingMessageStatements {
  /** Deletes it. @returns false when there is no such message, or it is not pending (any more) */
  cancel(runner: QueryRunner, messageId: string): Promise<boolean>;

  /** Sets its planned date. @returns false when there is no such message, or it is not pending (any more) */
  reschedule(runner: QueryRunner, messageId: string, at: Date): Promise<boolean>;
}
