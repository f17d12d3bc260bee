import type { DataSource, EntitySchema, QueryRunner } from 'typeorm';
import type { Dialect } from '../persistence/dialect';
import type { InboxKey } from '../persistence/inbox-message';
import { runOutside } from '../transaction/own-work';
import type { Transactions } from '../transaction/transactions';
import { contentHash } from './content-hash';

interface ContentRow {
  readonly fingerprint: string | null;
  readonly body: Buffer | null;
}

/** Fingerprints of messages, which stand in their rows. */
export class FingerprintStore {
  constructor(
    private readonly dataSource: DataSource,
    private readonly transactions: Transactions,
    private readonly table: EntitySchema,
    private readonly dialect: Dialect,
  ) {}

  /**
   * In the handler's transaction, which has to be the active one.
   *
   * @returns the id of another message with the same content, if there is one
   */
  note(key: InboxKey, hash: string): Promise<string | undefined> {
    const runner = this.transactions.active()?.queryRunner as QueryRunner;
    return this.dialect.inbox.noteFingerprint(runner, key, hash);
  }

  /** @returns `undefined` where the row does not tell, e.g. because it is older than the option */
  async find({ consumer, messageId }: InboxKey, isBody: boolean): Promise<string | undefined> {
    const find = (runner: QueryRunner) =>
      runner.manager.findOne(
        this.table as EntitySchema<ContentRow & { consumer: string; message_id: string }>,
        {
          where: { consumer, message_id: messageId },
          select: { fingerprint: true, body: true },
        },
      );
    const joined = this.transactions.active()?.queryRunner;
    const row = await (joined ? find(joined) : runOutside(this.dataSource, find));
    // One that is kept has its body instead.
    return row?.fingerprint ?? (row?.body && isBody ? contentHash(row.body) : undefined);
  }
}
