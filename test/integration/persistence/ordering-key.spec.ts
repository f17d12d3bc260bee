import { setTimeout as sleep } from 'node:timers/promises';
import type { QueryRunner } from 'typeorm';
import { isRetryable } from '../../../lib/persistence/postgres/errors';
import { outboxRow } from './messages';
import { inTransaction, openPostgres, waitUntilBlocked, type Postgres } from './postgres';

/*
 * The trial of protocol P2: for each key the order of the sequence is the order of the commits. Each transaction publishes
 * first and learns its place among the commits afterwards, from a counter row that it holds until it commits.
 */
const CONNECTIONS = 8;
const PUBLISHES = 60;
const KEYS = 5;

/** Writes one message; the way to do it is what is compared. */
type Publish = (runner: QueryRunner, key: string) => Promise<string>;

describe('Publishing with an ordering key (P2)', () => {
  let pg: Postgres;

  beforeAll(async () => {
    pg = await openPostgres();
    await pg.database.query(`
      CREATE TABLE version (key text PRIMARY KEY, n int NOT NULL);
      INSERT INTO version SELECT 'k' || g, 0 FROM generate_series(0, ${KEYS - 1}) AS g`);
  });
  afterAll(() => pg.close());
  beforeEach(() => pg.database.query('TRUNCATE outbox_message; UPDATE version SET n = 0'));

  const insert: Publish = async (runner, orderingKey) => {
    const [id] = await pg.dialect.outbox.insert(runner, [outboxRow({ orderingKey })]);
    return id!;
  };

  /** The simpler form: the lock in the values. The sequence value is drawn before it is taken. */
  const insertValues: Publish = async (runner, orderingKey) => {
    const { messageId } = outboxRow();
    await runner.query(
      `INSERT INTO outbox_message (message_id, exchange, routing_key, body, ordering_key)
      VALUES ($1, 'e', 'r', '{}', (SELECT $2::text FROM pg_advisory_xact_lock(1, hashtext($2) & 1023)))`,
      [messageId, orderingKey],
    );
    return messageId;
  };

  it('gives sequence values in the order of the commits, from 8 connections', async () => {
    expect(await inversions(insert)).toBe(0);
  });

  it('draws the sequence value after the lock; the VALUES form draws it before', async () => {
    expect(await sequenceOrder(insert)).toEqual(['first', 'other key', 'second']);
    await pg.database.query('TRUNCATE outbox_message');
    expect(await sequenceOrder(insertValues)).toEqual(['first', 'second', 'other key']);
  });

  it('keeps the order within a batch', async () => {
    const rows = Array.from({ length: 1_000 }, (_, i) =>
      outboxRow({ body: String(i), orderingKey: i % 3 === 0 ? null : `k${i % 7}` }),
    );
    const ids = await pg.withRunner((runner) => pg.dialect.outbox.insert(runner, rows));
    expect(ids).toEqual(rows.map((row) => row.messageId));
    const stored = await pg.database.query<{ body: string }>('SELECT body FROM outbox_message ORDER BY seq');
    expect(stored.map((row) => Number(row.body))).toEqual(rows.map((_, i) => i));
  });

  it('does not deadlock among batches with the same keys in any order', async () => {
    const keys = Array.from({ length: 30 }, (_, i) => `q${i}`);
    let deadlocks = 0;
    await Promise.all(
      Array.from({ length: 6 }, () =>
        pg.withRunner(async (runner) => {
          for (let i = 0; i < 40; i++) {
            const rows = shuffled(keys).map((orderingKey) => outboxRow({ orderingKey }));
            await pg.dialect.outbox.insert(runner, rows).catch((error: unknown) => {
              if (!isRetryable(error)) throw error;
              deadlocks++;
            });
          }
        }),
      ),
    );
    expect(deadlocks).toBe(0);
  });

  it('takes 20,000 keys in one transaction, and no more than 1,024 locks', async () => {
    const rows = Array.from({ length: 20_000 }, (_, i) => outboxRow({ orderingKey: `user-${i}` }));
    await pg.withRunner((runner) =>
      inTransaction(runner, async () => {
        await pg.dialect.outbox.insert(runner, rows);
        const [locks] = (await runner.query(
          `SELECT count(*)::int AS n FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()`,
        )) as { n: number }[];
        expect(locks!.n).toBeGreaterThan(1_000);
        expect(locks!.n).toBeLessThanOrEqual(1_024);
      }),
    );
  });

  it('takes no lock without a key', async () => {
    await pg.withRunner((runner) =>
      inTransaction(runner, async () => {
        await pg.dialect.outbox.insert(runner, [outboxRow(), outboxRow()]);
        expect(
          await runner.query(`SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()`),
        ).toEqual([]);
      }),
    );
  });

  /** Publishes from all connections at once; how often a later commit has a smaller sequence value. */
  async function inversions(publish: Publish): Promise<number> {
    await Promise.all(
      Array.from({ length: CONNECTIONS }, () =>
        pg.withRunner(async (runner) => {
          for (let i = 0; i < PUBLISHES; i++) {
            const key = `k${Math.floor(Math.random() * KEYS)}`;
            await inTransaction(runner, async () => {
              const id = await publish(runner, key);
              await sleep(Math.random() * 4);
              await runner.query('UPDATE version SET n = n + 1 WHERE key = $1', [key]);
              await runner.query(
                'UPDATE outbox_message SET body = (SELECT n FROM version WHERE key = $1) WHERE message_id = $2',
                [key, id],
              );
            });
          }
        }),
      ),
    );
    const rows = await pg.database.query<{ key: string; place: number }>(
      'SELECT ordering_key AS key, body::int AS place FROM outbox_message ORDER BY seq',
    );
    expect(rows).toHaveLength(CONNECTIONS * PUBLISHES);
    const last = new Map<string, number>();
    let count = 0;
    for (const { key, place } of rows) {
      if (place !== (last.get(key) ?? 0) + 1) count++;
      last.set(key, place);
    }
    return count;
  }

  /** Two transactions publish one key, the second has to wait; meanwhile a third publishes another key. */
  async function sequenceOrder(publish: Publish): Promise<string[]> {
    const names = new Map<string, string>();
    await pg.withRunner((a) =>
      pg.withRunner((b) =>
        pg.withRunner(async (c) => {
          await a.startTransaction();
          names.set(await publish(a, 'A'), 'first');
          await b.startTransaction();
          const second = publish(b, 'A');
          await waitUntilBlocked(pg);
          names.set(await publish(c, 'B'), 'other key');
          await a.commitTransaction();
          names.set(await second, 'second');
          await b.commitTransaction();
        }),
      ),
    );
    const rows = await pg.database.query<{ id: string }>(
      'SELECT message_id AS id FROM outbox_message ORDER BY seq',
    );
    return rows.map((row) => names.get(row.id)!);
  }
});

function shuffled<T>(values: readonly T[]): T[] {
  return values
    .map((value) => ({ value, place: Math.random() }))
    .sort((a, b) => a.place - b.place)
    .map(({ value }) => value);
}
