import { Logger } from '@nestjs/common';
import { SchedulerRegistry } from '@nestjs/schedule';
import { DataSource } from 'typeorm';
import { inboxOutboxEntities } from '../../../lib';
import { InboxCleaner } from '../../../lib/inbox/inbox-cleaner';
import { InboxStore } from '../../../lib/inbox/inbox-store';
import { LockStore } from '../../../lib/locking/lock-store';
import { createDialect } from '../../../lib/persistence/dialects';
import { inboxOutboxTables } from '../../../lib/persistence/registered-tables';
import { createTestDatabase, type TestDatabase } from '../../support/test-database';
import { createSchema } from './inbox-setup';

const DAY = 24 * 3_600_000;

describe('G10: cleaning the inbox', () => {
  let database: TestDatabase;
  let dataSource: DataSource;
  let store: InboxStore;

  beforeAll(async () => {
    database = await createTestDatabase({ prefix: 'cleaner' });
    await createSchema(database);
    dataSource = new DataSource({ type: 'postgres', url: database.url, entities: inboxOutboxEntities() });
    await dataSource.initialize();
    const tables = inboxOutboxTables();
    store = new InboxStore(dataSource, tables.inbox, createDialect(dataSource, tables));
  });
  beforeEach(() => database.query('TRUNCATE inbox_message'));
  afterAll(async () => {
    await dataSource.destroy();
    await database.close();
  });

  const cleaner = (batchSize = 1_000) =>
    new InboxCleaner({
      store,
      batchSize,
      retention: 7 * DAY,
      interval: 60_000,
      scheduler: new SchedulerRegistry(),
      locks: new LockStore({ dataSource, dialect: createDialect(dataSource, inboxOutboxTables()) }),
      logger: new Logger('test'),
    });

  const insert = (id: string, status: string, receivedDays: number, processedDays: number | null) =>
    database.query(
      `INSERT INTO inbox_message (consumer, message_id, status, received_at, processed_at)
       VALUES ('c', $1, $2, now() - $3::int * interval '1 day', now() - $4::int * interval '1 day')`,
      [id, status, receivedDays, processedDays],
    );
  const left = async () =>
    (await database.query<{ message_id: string }>('SELECT message_id FROM inbox_message ORDER BY 1')).map(
      ({ message_id }) => message_id,
    );

  it('C55: only what was handled long enough ago goes; open, failed and dead rows stay', async () => {
    await insert('handled 8 days ago', 'done', 8, 8);
    await insert('handled today, received 40 days ago', 'done', 40, 0);
    await insert('handled 6 days ago', 'done', 6, 6);
    for (const status of ['seen', 'open', 'in_progress', 'dead']) await insert(status, status, 40, null);
    expect(await cleaner().cleanOnce()).toBe(1);
    expect(await left()).toEqual(
      [
        'dead',
        'handled 6 days ago',
        'handled today, received 40 days ago',
        'in_progress',
        'open',
        'seen',
      ].sort(),
    );
  });

  it('goes on in small batches until nothing is left, and does not wait for a row that is locked', async () => {
    for (let n = 0; n < 25; n++) await insert(`old-${n}`, 'done', 8, 8);
    const holder = dataSource.createQueryRunner();
    await holder.startTransaction();
    await holder.query("SELECT 1 FROM inbox_message WHERE message_id = 'old-3' FOR UPDATE");
    const deleteDone = jest.spyOn(store, 'deleteDone');
    expect(await cleaner(10).cleanOnce()).toBe(24);
    expect(deleteDone).toHaveBeenCalledTimes(3);
    expect(await left()).toEqual(['old-3']);
    await holder.rollbackTransaction();
    await holder.release();
  });

  it('runs under its lock: one at a time over all processes', async () => {
    await insert('old', 'done', 8, 8);
    await database.query(
      `INSERT INTO shedlock (name, lock_until, locked_at, locked_by)
       VALUES ('inbox-cleaner', timezone('utc', now()) + interval '1 minute', timezone('utc', now()), 'another')`,
    );
    expect(await cleaner().runOnce()).toBe(false);
    expect(await left()).toEqual(['old']);
    await database.query("DELETE FROM shedlock WHERE name = 'inbox-cleaner'");
    expect(await cleaner().runOnce()).toBe(true);
    expect(await left()).toEqual([]);
  });
});
