import type { DataSource, EntitySchema, QueryRunner } from 'typeorm';
import type { Dialect } from '../persistence/dialect';
import type { InboxKey, KeptMessage } from '../persistence/inbox-statements';
import { ownTransaction } from '../transaction/own-work';
import type { KeptPresence } from './kept-presence';
import { thrownDetails } from '../message/thrown-text';

/** P1's states of a row. Only a `seen` one may still be taken. */
export type InboxStatus = 'seen' | 'open' | 'in_progress' | 'done' | 'dead';

/** What is read of a row when it matters why it cannot be taken. */
export interface InboxRow {
  readonly status: InboxStatus;
  readonly attempts: number;
  readonly last_error: string | null;
}

/** The module's own statements never wait for ever; whoever needs them tries again. Milliseconds. */
const LIMITS = { statementTimeout: 10_000, lockTimeout: 5_000 };

/** Column `last_error` is read by people; a stack of a hundred kilobytes helps nobody. */
const MAX_ERROR_LENGTH = 10_000;

/** The inbox table of one data source. What is not said to run on a runner commits in a short transaction of its own. */
export class InboxStore {
  constructor(
    private readonly dataSource: DataSource,
    private readonly table: EntitySchema,
    private readonly dialect: Dialect,
    private readonly presence?: Pick<KeptPresence, 'mayBe'>,
  ) {}

  /** P1 step 1. @returns deliveries counted so far, or `undefined` for a duplicate */
  countRedelivery(key: InboxKey): Promise<number | undefined> {
    return this.own((runner) => this.dialect.inbox.countRedelivery(runner, key));
  }

  /**
   * P1 step 2, in the handler's transaction.
   *
   * @param looksFirst where a duplicate must not lock the row of what is settled, since its transaction goes on
   * @returns false for a duplicate
   */
  take(runner: QueryRunner, key: InboxKey, looksFirst = false): Promise<boolean> {
    return this.dialect.inbox.take(runner, key, looksFirst || (this.presence?.mayBe ?? true));
  }

  /** P1 step 8, in the handler's transaction. @returns false when it is not ours any more */
  takeKept(runner: QueryRunner, key: InboxKey, token: string): Promise<boolean> {
    return this.dialect.inbox.takeKept(runner, key, token);
  }

  /** Whether the table owns a message with this ordering key, as the runner's transaction sees it. */
  isKeyOpen(runner: QueryRunner, consumer: string, orderingKey: string): Promise<boolean> {
    return this.dialect.inbox.isKeyOpen(runner, consumer, orderingKey);
  }

  /** The row as the runner's transaction sees it. */
  find(runner: QueryRunner, { consumer, messageId }: InboxKey): Promise<InboxRow | null> {
    return runner.manager.findOne(
      this.table as EntitySchema<InboxRow & { consumer: string; message_id: string }>,
      {
        where: { consumer, message_id: messageId },
        select: { status: true, attempts: true, last_error: true },
      },
    );
  }

  /** P1 step 6. @returns the status after it: anything but `seen` means that another copy of the message has settled it */
  recordFailure(key: InboxKey, error: unknown): Promise<InboxStatus | undefined> {
    return this.own(async (runner) => {
      await this.dialect.inbox.recordFailure(runner, key, errorText(error));
      return (await this.find(runner, key))?.status;
    });
  }

  /** Keeps a message as dead. @returns whether it was not settled before */
  bury(message: KeptMessage, reason: (lastError: string | null) => string): Promise<boolean> {
    return this.own(async (runner) => {
      const row = await this.find(runner, message);
      return this.dialect.inbox.bury(runner, message, errorText(reason(row?.last_error ?? null)));
    });
  }

  /** @returns how many rows were deleted, at most `limit` */
  deleteDone(olderThan: number, limit: number): Promise<number> {
    return this.own((runner) => this.dialect.inbox.deleteDone(runner, olderThan, limit));
  }

  private own<T>(work: (runner: QueryRunner) => Promise<T>): Promise<T> {
    return ownTransaction(this.dataSource, LIMITS, work);
  }
}

/** What is written of an error: with its stack, where it has one. */
export function errorText(error: unknown): string {
  const text = thrownDetails(error);
  // No database takes a NUL character in a text.
  return text.slice(0, MAX_ERROR_LENGTH).replaceAll('\0', '\\0');
}
