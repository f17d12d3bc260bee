import type { DataSource, EntitySchema, QueryRunner } from 'typeorm';
import type { Dialect } from '../persistence/dialect';
import type { InboxKey } from '../persistence/inbox-statements';
import type { Transactions } from '../transaction/transactions';
import { runOutside } from '../transaction/own-work';
import type { InboxStatus } from './inbox-store';

export interface KeptReply {
  readonly status: InboxStatus;
  readonly last_error: string | null;
  readonly reply: Buffer | null;
}

/** Replies to RPC requests, which stand in the rows of their messages. */
export class ReplyStore {
  constructor(
    private readonly dataSource: DataSource,
    private readonly transactions: Transactions,
    private readonly table: EntitySchema,
    private readonly dialect: Dialect,
  ) {}

  /** In the handler's transaction, which has to be the active one. */
  async keep(key: InboxKey, reply: Buffer): Promise<void> {
    const runner = this.transactions.active()?.queryRunner as QueryRunner;
    await this.dialect.inbox.keepReply(runner, key, reply);
  }

  find({ consumer, messageId }: InboxKey): Promise<KeptReply | null> {
    const find = (runner: QueryRunner) =>
      runner.manager.findOne(
        this.table as EntitySchema<KeptReply & { consumer: string; message_id: string }>,
        {
          where: { consumer, message_id: messageId },
          select: { status: true, last_error: true, reply: true },
        },
      );
    // Inside a transaction of the application it may be that one that has written it.
    const joined = this.transactions.active()?.queryRunner;
    return joined ? find(joined) : runOutside(this.dataSource, find);
  }
}
