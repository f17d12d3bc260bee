import { setTimeout as sleep } from 'node:timers/promises';
import { SchedulerRegistry } from '@nestjs/schedule';
import { randomUUID } from 'node:crypto';
import { LockStore } from '../../../lib/locking/lock-store';
import { OutboxCleaner } from '../../../lib/outbox/outbox-cleaner';
import { OutboxStore } from '../../../lib/outbox/outbox-store';
import { DeletionLog } from '../../support/deletion-log';
import { createTestDatabase, type TestDatabase } from '../../support/test-database';
import { waitFor } from '../../support/wait-for';
import { openOutboxTable, type OutboxTable, RecordingLogger } from './outbox-table';

const OLD = 60_000;
const YOUNG = 500;
const BATCH = 1_000;
const DAY = 24 * 60 * 60 * 1_000;

describe('Cleaning under load', () => {
  let database: TestDatabase;
  let deletions: DeletionLog;
  const tables: OutboxTable[] = [];
  beforeAll(async () => {
    database = await createTestDatabase({ prefix: 'cleanload' });
    for (let n = 0; n < 4; n++) tables.push(await openOutboxTable(database.url, 8));
    await tables[0]!.createTables();
    await database.query(`
      INSERT INTO outbox_message (message_id, exchange, routing_key, body, status, settled_at)
      SELECT 'old-' || n, 'x', 'y', '{}', 'sent', now() - interval '8 days' FROM generate_series(1, ${OLD}) AS n;
      INSERT INTO outbox_message (message_id, exchange, routing_key, body, status, settled_at)
      SELECT 'young-' || n, 'x', 'y', '{}', 'sent', now() - interval '6 days' FROM generate_series(1, ${YOUNG}) AS n`);
    deletions = await DeletionLog.of(database, 'outbox_message');
  });
  afterAll(async () => {
    await Promise.all(tables.map((each) => each.close()));
    await database?.close();
  });

  it('C54: three replicas clean in small batches, one at a time, while others write and dispatch; the young rows stay', async () => {
    let over = false;
    const waits: number[] = [];
    const errors: unknown[] = [];
    const load = [
      ...Array.from({ length: 6 }, () => write()),
      dispatch(new OutboxStore({ ...tables[3]!, statementTimeout: 2_000 })),
    ];
    const loggers = [0, 1, 2].map(() => new RecordingLogger());
    const cleaners = loggers.map(
      (logger, n) =>
        new OutboxCleaner({
          interval: 50,
          batchSize: BATCH,
          retention: 7 * DAY,
          scheduler: new SchedulerRegistry(),
          locks: new LockStore(tables[n]!),
          store: new OutboxStore({ ...tables[n]!, statementTimeout: 2_000 }),
          logger,
        }),
    );
    for (const each of cleaners) each.start();
    await waitFor('the old rows to be gone', async () => (await countOf('old-')) === 0, { timeout: 40_000 });
    over = true;
    await Promise.all([...load, ...cleaners.map((each) => each.stop())]);

    expect(errors).toEqual([]);
    expect(loggers.flatMap(({ lines }) => lines)).toEqual([]);
    expect(await countOf('young-')).toBe(YOUNG);
    expect(waits.length).toBeGreaterThan(50);
    // A writer never waits for a cleaner: it takes a few milliseconds; the limit is for a busy machine.
    expect(waits.sort((a, b) => a - b)[Math.floor(waits.length * 0.95)]).toBeLessThan(500);
    expect(await deletions.sizes()).toEqual({ largest: BATCH, total: OLD });
    expect(await deletions.overlapping()).toEqual([]);

    async function write(): Promise<void> {
      while (!over) {
        const started = performance.now();
        await tables[3]!.publish({ exchange: 'x', routingKey: 'y' }).catch((error) => errors.push(error));
        waits.push(performance.now() - started);
        await sleep(5);
      }
    }
    async function dispatch(store: OutboxStore): Promise<void> {
      while (!over) {
        const token = randomUUID();
        const claimed = await store.claim({ token, lease: 10_000, limit: 100 });
        const sent = claimed.map(({ seq }) => seq);
        await store
          .settle({ token, sent, failed: [], released: [], keepSent: true })
          .catch((error) => errors.push(error));
      }
    }
  });

  async function countOf(prefix: string): Promise<number> {
    const [row] = await database.query<{ n: number }>(
      "SELECT count(*)::int AS n FROM outbox_message WHERE message_id LIKE $1 || '%'",
      [prefix],
    );
    return row!.n;
  }
});
