import { randomUUID } from 'node:crypto';
import { OutboxStore } from '../../../lib/outbox/outbox-store';
import { waitFor } from '../../support/wait-for';
import { outboxRow } from './messages';
import { openPostgres, type Postgres } from './postgres';

const BATCH = 100;
/** What as many sent messages leave behind while nothing can be cleaned up. */
const SENT_BEFORE = 120_000;

/** C27: a transaction that somebody has forgotten keeps all that was ever sent in the way of the claims. */
describe('Claims beside a forgotten transaction', () => {
  let pg: Postgres;
  beforeAll(async () => {
    pg = await openPostgres();
  });
  afterAll(() => pg.close());

  const insert = (count: number, orderingKey: string | null = null) =>
    pg.withRunner((runner) =>
      pg.dialect.outbox.insert(
        runner,
        Array.from({ length: count }, () => outboxRow({ orderingKey })),
      ),
    );

  it('C27: stay as quick as they were, and write each row once before it is deleted', async () => {
    const store = new OutboxStore(pg);
    const times: number[] = [];
    let processed = 0;
    /** One batch in and one batch out: the table is never empty, and never catches up with the start. */
    async function process(batches: number): Promise<void> {
      for (let n = 0; n < batches; n++) {
        await insert(BATCH);
        const token = randomUUID();
        const started = performance.now();
        const claimed = await store.claim({ token, lease: 60_000, limit: BATCH });
        times.push(performance.now() - started);
        processed += claimed.length;
        const sent = claimed.map(({ seq }) => seq);
        const { settled } = await store.settle({ token, sent, failed: [], released: [], keepSent: false });
        expect(settled).toBe(BATCH);
      }
    }

    await pg.withRunner(async (forgotten) => {
      await forgotten.startTransaction('REPEATABLE READ');
      await forgotten.query('SELECT 1');
      await insert(3 * BATCH);
      await process(50);
      await pg.database.query(`
        INSERT INTO outbox_message (message_id, exchange, routing_key, body)
        SELECT 'before-' || g, 'e', 'r', '{}' FROM generate_series(1, ${SENT_BEFORE}) AS g;
        DELETE FROM outbox_message WHERE message_id LIKE 'before-%'`);
      await process(80);
      const [first, last] = [median(times.slice(0, 50)), median(times.slice(-50))];
      // About 5 ms and 5 ms; from the start of the table it would be 5 ms and 40 ms.
      expect(last).toBeLessThanOrEqual(5 * first);
      // As far behind as it was: nothing was left out.
      expect(await pg.database.query('SELECT count(*)::int AS n FROM outbox_message')).toEqual([
        { n: 3 * BATCH },
      ]);
      const updated = await waitFor('the statistics', async () => {
        const [row] = await pg.database.query<{ updated: number; deleted: number }>(
          `SELECT n_tup_upd::int AS updated, n_tup_del::int AS deleted FROM pg_stat_user_tables
           WHERE relname = 'outbox_message'`,
        );
        return row!.deleted === processed + SENT_BEFORE && row!.updated;
      });
      expect(updated).toBe(processed);
      // The trial can fail: a store that has not claimed yet begins at the start.
      expect(await fromTheStart()).toBeGreaterThan(2 * Math.min(...times.slice(-50)));
      await forgotten.rollbackTransaction();
    });
  });

  /** The quickest of claims that are taken back. */
  async function fromTheStart(): Promise<number> {
    const times: number[] = [];
    for (let n = 0; n < 20; n++) {
      await pg.withRunner(async (runner) => {
        await runner.startTransaction('READ COMMITTED');
        const started = performance.now();
        await pg.dialect.outbox.claim(runner, { token: randomUUID(), lease: 1_000, limit: BATCH });
        times.push(performance.now() - started);
        await runner.rollbackTransaction();
      });
    }
    return Math.min(...times);
  }

  it('find at once what is behind the sweep when nothing is in front of it', async () => {
    await pg.database.query('TRUNCATE outbox_message');
    const store = new OutboxStore(pg);
    const take = (limit: number) => store.claim({ token: randomUUID(), lease: 60_000, limit });
    await insert(4);
    const [first, second] = await take(2);
    expect((await take(1)).map(({ seq }) => seq)).not.toContain(first!.seq);
    // Both are given back, one of them to wait for its retry.
    await pg.database.query(
      `UPDATE outbox_message SET claim_token = NULL, claimed_until = NULL WHERE seq = $1`,
      [first!.seq],
    );
    await pg.database.query(
      `UPDATE outbox_message SET claim_token = NULL, claimed_until = NULL, status = 'scheduled', attempts = 1,
         available_at = now() WHERE seq = $1`,
      [second!.seq],
    );
    const rest: string[] = [];
    while (await store.anythingDue()) rest.push(...(await take(1)).map(({ seq }) => seq));
    expect(rest).toHaveLength(3);
    expect(rest).toEqual(expect.arrayContaining([first!.seq, second!.seq]));
  });

  it('G8: never skip a message with a key that is behind the sweep', async () => {
    await pg.database.query('TRUNCATE outbox_message');
    const store = new OutboxStore(pg);
    const take = (limit: number) => store.claim({ token: randomUUID(), lease: 60_000, limit });
    await insert(1);
    await insert(1, 'k');
    const [, keyed] = await take(2);
    await insert(3);
    await take(1);
    await pg.database.query(
      `UPDATE outbox_message SET claim_token = NULL, claimed_until = NULL WHERE seq = $1`,
      [keyed!.seq],
    );
    await insert(1, 'k');
    expect((await take(1)).map(({ seq }) => seq)).toEqual([keyed!.seq]);
  });
});

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)]!;
}
