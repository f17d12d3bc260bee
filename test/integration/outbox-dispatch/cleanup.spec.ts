import { LockStore } from '../../../lib/locking/lock-store';
import { OutboxCleaner } from '../../../lib/outbox/outbox-cleaner';
import { OutboxStore } from '../../../lib/outbox/outbox-store';
import { SchedulerRegistry } from '@nestjs/schedule';
import { createTestDatabase, type TestDatabase } from '../../support/test-database';
import { waitFor } from '../../support/wait-for';
import { openOutboxTable, type OutboxTable, RecordingLogger } from './outbox-table';

const DAY = 24 * 60 * 60 * 1_000;

describe('Cleaning the outbox', () => {
  let database: TestDatabase;
  let table: OutboxTable;
  let scheduler: SchedulerRegistry;
  beforeAll(async () => {
    database = await createTestDatabase({ prefix: 'cleanup' });
    table = await openOutboxTable(database.url);
    await table.createTables();
  });
  beforeEach(() => (scheduler = new SchedulerRegistry()));
  afterEach(() => database.query('TRUNCATE outbox_message'));
  afterAll(async () => {
    await table?.close();
    await database?.close();
  });

  const cleaner = (retention: number | false, overrides: { batchSize?: number; interval?: number } = {}) =>
    new OutboxCleaner({
      interval: 20,
      batchSize: 1_000,
      retention,
      scheduler,
      locks: new LockStore(table),
      store: new OutboxStore(table),
      logger: new RecordingLogger(),
      ...overrides,
    });
  const ids = async () =>
    (await database.query('SELECT message_id FROM outbox_message ORDER BY message_id')).map(
      (row) => row.message_id,
    );

  it('G10, C55: deletes only what was sent before the retention; open, claimed, planned and dead rows stay however old', async () => {
    await database.query(
      `INSERT INTO outbox_message (message_id, exchange, routing_key, body, status, created_at, available_at, settled_at,
         claim_token, claimed_until, attempts, deduplication_key)
       SELECT id, 'x', 'y', '', status, now() - interval '40 days', now() + due, now() + settled,
         CASE WHEN id = 'claimed' THEN gen_random_uuid() END, CASE WHEN id = 'claimed' THEN now() END, 0, key
       FROM (VALUES
         ('open', 'ready', interval '-40 days', NULL::interval, NULL),
         ('claimed', 'ready', interval '-40 days', NULL, NULL),
         ('planned', 'scheduled', interval '60 days', NULL, NULL),
         ('dead', 'dead', interval '-40 days', interval '-30 days', NULL),
         ('dead today', 'dead', interval '-40 days', interval '0', NULL),
         ('sent today', 'sent', interval '-40 days', interval '-1 hour', NULL),
         ('sent 8 days ago', 'sent', interval '-40 days', interval '-8 days', NULL),
         ('sent 8 days ago, key', 'sent', interval '-40 days', interval '-8 days', 'k')
       ) AS t (id, status, due, settled, key)`,
    );
    expect(await cleaner(7 * DAY).runOnce()).toBe(true);
    expect(await ids()).toEqual(['claimed', 'dead', 'dead today', 'open', 'planned', 'sent today']);
  });

  it('without a retention it still forgets rows that were kept for their deduplication key, after a day', async () => {
    await database.query(
      `INSERT INTO outbox_message (message_id, exchange, routing_key, body, status, settled_at, deduplication_key)
       VALUES ('old', 'x', 'y', '', 'sent', now() - interval '25 hours', 'a'),
              ('young', 'x', 'y', '', 'sent', now() - interval '23 hours', 'b')`,
    );
    await cleaner(false).runOnce();
    expect(await ids()).toEqual(['young']);
  });

  it('works in small batches until nothing is left, as a named interval', async () => {
    await database.query(
      `INSERT INTO outbox_message (message_id, exchange, routing_key, body, status, settled_at)
       SELECT n::text, 'x', 'y', '', 'sent', now() - interval '8 days' FROM generate_series(1, 250) AS n`,
    );
    const job = cleaner(7 * DAY, { batchSize: 20 });
    job.start();
    expect(scheduler.getIntervals()).toEqual(['outbox-cleaner']);
    await waitFor('the old rows to be gone', async () => (await ids()).length === 0);
    await job.stop();
    expect(scheduler.getIntervals()).toEqual([]);
  });
});
