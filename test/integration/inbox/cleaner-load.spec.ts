import { setTimeout as sleep } from 'node:timers/promises';
import { Logger } from '@nestjs/common';
import { SchedulerRegistry } from '@nestjs/schedule';
import { DataSource } from 'typeorm';
import { inboxOutboxEntities } from '../../../lib';
import { InboxCleaner } from '../../../lib/inbox/inbox-cleaner';
import { InboxStore } from '../../../lib/inbox/inbox-store';
import { LockStore } from '../../../lib/locking/lock-store';
import { createDialect } from '../../../lib/persistence/dialects';
import { inboxOutboxTables } from '../../../lib/persistence/registered-tables';
import { DeletionLog } from '../../support/deletion-log';
import { createTestDatabase, type TestDatabase } from '../../support/test-database';
import { waitFor } from '../../support/wait-for';
import { createSchema } from './inbox-setup';

const OLD = 60_000;
const KEPT = 500;
const BATCH = 1_000;
const DAY = 24 * 3_600_000;

describe('cleaning the inbox under load', () => {
  let database: TestDatabase;
  let deletions: DeletionLog;
  const dataSources: DataSource[] = [];
  beforeAll(async () => {
    database = await createTestDatabase({ prefix: 'inboxload' });
    await createSchema(database);
    for (let n = 0; n < 4; n++) {
      const url = database.url;
      const dataSource = new DataSource({ type: 'postgres', url, entities: inboxOutboxEntities() });
      dataSources.push(await dataSource.initialize());
    }
    await database.query(`
      INSERT INTO inbox_message (consumer, message_id, status, processed_at)
      SELECT 'c', 'old-' || n, 'done', now() - interval '8 days' FROM generate_series(1, ${OLD}) AS n;
      INSERT INTO inbox_message (consumer, message_id, status, received_at, processed_at)
      SELECT 'c', 'kept-' || status || n, status, now() - interval '40 days',
        CASE status WHEN 'done' THEN now() - interval '6 days' WHEN 'dead' THEN now() - interval '40 days' END
      FROM unnest(ARRAY['done', 'seen', 'open', 'dead']) AS status, generate_series(1, ${KEPT}) AS n`);
    deletions = await DeletionLog.of(database, 'inbox_message');
  });
  afterAll(async () => {
    await Promise.all(dataSources.map((each) => each.destroy()));
    await database?.close();
  });

  const storeOn = (dataSource: DataSource) => {
    const tables = inboxOutboxTables();
    return new InboxStore(dataSource, tables.inbox, createDialect(dataSource, tables));
  };

  it('C54 (inbox): three replicas clean in small batches, one at a time, while messages are taken; what is young, open or dead stays', async () => {
    let over = false;
    let taken = 0;
    const waits: number[] = [];
    const errors: unknown[] = [];
    const takers = Array.from({ length: 6 }, () => take(dataSources[3]!));
    const cleaners = dataSources.slice(0, 3).map(
      (dataSource) =>
        new InboxCleaner({
          store: storeOn(dataSource),
          batchSize: BATCH,
          retention: 7 * DAY,
          interval: 50,
          scheduler: new SchedulerRegistry(),
          locks: new LockStore({ dataSource, dialect: createDialect(dataSource, inboxOutboxTables()) }),
          logger: new Logger('test'),
        }),
    );
    for (const each of cleaners) each.start();
    await waitFor('the old rows to be gone', async () => (await countOf('old-')) === 0, { timeout: 40_000 });
    over = true;
    await Promise.all([...takers, ...cleaners.map((each) => each.stop())]);

    expect(errors).toEqual([]);
    expect(await countOf('kept-')).toBe(4 * KEPT);
    expect(await countOf('new-')).toBe(taken);
    expect(taken).toBeGreaterThan(50);
    // Nobody waits for a cleaner: a take needs a few milliseconds; the limit is for a busy machine.
    expect(waits.sort((a, b) => a - b)[Math.floor(waits.length * 0.95)]).toBeLessThan(500);
    expect(await deletions.sizes()).toEqual({ largest: BATCH, total: OLD });
    expect(await deletions.overlapping()).toEqual([]);

    async function take(dataSource: DataSource): Promise<void> {
      const store = storeOn(dataSource);
      while (!over) {
        const started = performance.now();
        const key = { consumer: 'c', messageId: `new-${taken++}` };
        await dataSource
          .transaction(({ queryRunner }) => store.take(queryRunner!, key))
          .catch((error) => errors.push(error));
        waits.push(performance.now() - started);
        await sleep(5);
      }
    }
  });

  async function countOf(prefix: string): Promise<number> {
    const [row] = await database.query<{ n: number }>(
      "SELECT count(*)::int AS n FROM inbox_message WHERE message_id LIKE $1 || '%'",
      [prefix],
    );
    return row!.n;
  }
});
