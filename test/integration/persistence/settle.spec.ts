import { randomUUID } from 'node:crypto';
import type { OutboxInsert, Settlement } from '../../../lib/persistence/outbox-statements';
import { outboxRow } from './messages';
import { inTransaction, openPostgres, type Postgres } from './postgres';

const DAY = 24 * 3_600_000;

describe('Claim, settle and cleanup of outbox rows', () => {
  let pg: Postgres;

  beforeAll(async () => {
    pg = await openPostgres();
  });
  afterAll(() => pg.close());
  beforeEach(() => pg.database.query('TRUNCATE outbox_message'));

  const insert = (...rows: Partial<OutboxInsert>[]) =>
    pg.withRunner((runner) => pg.dialect.outbox.insert(runner, rows.map(outboxRow)));
  const claim = async (lease = 60_000, token = randomUUID(), limit = 100) => {
    const rows = await pg.withRunner((runner) =>
      inTransaction(runner, () => pg.dialect.outbox.claim(runner, { token, lease, limit })),
    );
    return { token, rows, seqs: rows.map(({ seq }) => seq), bodies: rows.map(({ body }) => body) };
  };
  const settleAll = (settlement: Partial<Settlement> & { token: string }) =>
    pg.withRunner((runner) =>
      pg.dialect.outbox.settle(runner, {
        sent: [],
        failed: [],
        released: [],
        keepSent: false,
        ...settlement,
      }),
    );
  const settle = async (settlement: Partial<Settlement> & { token: string }) =>
    (await settleAll(settlement)).settled;
  const isDue = () => pg.withRunner((runner) => pg.dialect.outbox.anythingDue(runner));
  const stored = () =>
    pg.database.query<Record<string, unknown>>(
      'SELECT body, status, attempts, last_error, claim_token, settled_at FROM outbox_message ORDER BY seq',
    );

  it('gives the messages in order, with everything in them', async () => {
    await insert(
      { body: '1', headers: '{"h":1}', properties: '{"type":"t"}', orderingKey: 'k' },
      { body: 'AAE=', bodyEncoding: 'base64', exchange: '', expiresAt: new Date(0) },
    );
    const { rows } = await claim();
    expect(rows).toMatchObject([
      {
        body: '1',
        headers: '{"h":1}',
        properties: '{"type":"t"}',
        orderingKey: 'k',
        attempts: 0,
        expired: false,
      },
      { body: 'AAE=', bodyEncoding: 'base64', exchange: '', headers: null, expired: true },
    ]);
    expect(Math.abs(rows[0]!.createdAt.getTime() - Date.now())).toBeLessThan(5_000);
    expect(await isDue()).toBe(false);
  });

  it('settles each kind: gone, kept, waiting for its retry, dead, given back', async () => {
    await insert(
      ...['sent', 'deduplicated', 'retry', 'dead', 'released'].map((body) => ({
        body,
        deduplicationKey: body === 'deduplicated' ? 'd' : null,
      })),
    );
    const { token, seqs } = await claim();
    const settled = await settle({
      token,
      sent: seqs.slice(0, 2),
      failed: [
        { seq: seqs[2]!, error: 'with \0 in it', next: 60_000 },
        { seq: seqs[3]!, error: 'y'.repeat(20_000), next: 'dead' },
      ],
      released: [seqs[4]!],
    });
    expect(settled).toBe(5);
    const rows = await stored();
    expect(rows).toMatchObject([
      { body: 'deduplicated', status: 'sent', settled_at: expect.any(Date) },
      { body: 'retry', status: 'scheduled', attempts: 1, last_error: 'with \\0 in it', settled_at: null },
      { body: 'dead', status: 'dead', attempts: 1, settled_at: expect.any(Date) },
      { body: 'released', status: 'ready', attempts: 0, settled_at: null },
    ]);
    expect(rows.every((row) => row.claim_token === null)).toBe(true);
    expect((rows[2]!.last_error as string).length).toBeLessThan(10_100);
    expect((await claim()).bodies).toEqual(['released']);
  });

  it('gives the deduplication key of a dead message back', async () => {
    await insert({ body: 'dies', deduplicationKey: 'd' }, { body: 'waits', deduplicationKey: 'e' });
    const { token, seqs } = await claim();
    const failed = seqs.map((seq, i) => ({ seq, error: 'x', next: i === 0 ? ('dead' as const) : 60_000 }));
    await settle({ token, failed });
    await insert({ body: 'again', deduplicationKey: 'd' }, { body: 'refused', deduplicationKey: 'e' });
    expect((await stored()).map((row) => row.body)).toEqual(['dies', 'waits', 'again']);
  });

  it('changes nothing of a message that another has claimed since', async () => {
    await insert({ body: '1' }, { body: '2' }, { body: '3' });
    const late = await claim(1);
    const next = await claim();
    expect(next.seqs).toEqual(late.seqs);
    const [a, b, c] = late.seqs;
    const failed = [{ seq: b!, error: 'x', next: 'dead' as const }];
    expect(await settle({ token: late.token, sent: [a!], failed, released: [c!] })).toBe(0);
    expect(
      await pg.withRunner((runner) => pg.dialect.outbox.renew(runner, late.token, 60_000, late.seqs)),
    ).toBe(0);
    expect(await settle({ token: next.token, sent: [a!, b!, c!] })).toBe(3);
  });

  it('leaves a message alone for a while with no attempt used up, and what is behind it in its key too', async () => {
    await insert({ body: 'a1', orderingKey: 'a' }, { body: 'a2', orderingKey: 'a' }, { body: 'free' });
    const { token, seqs } = await claim();
    const [a1, a2, free] = seqs;
    const postponed = [
      { seq: a1!, delay: 60_000 },
      { seq: free!, delay: 60_000 },
    ];
    expect(await settle({ token, postponed, released: [a2!] })).toBe(3);
    expect(await isDue()).toBe(true);
    expect((await claim()).rows).toEqual([]);
    await pg.database.query(
      'UPDATE outbox_message SET claimed_until = now() WHERE claimed_until IS NOT NULL',
    );
    const again = await claim();
    expect(again.seqs).toEqual(seqs);
    expect(again.rows.map(({ attempts }) => attempts)).toEqual([0, 0, 0]);
    expect(await settle({ token, postponed })).toBe(0);
  });

  it('tells which messages have become dead, and of those of another owner nothing', async () => {
    await insert({}, {});
    const late = await claim(1);
    const failed = late.seqs.map((seq) => ({ seq, error: 'x', next: 'dead' as const }));
    expect(await settleAll({ token: late.token, failed: failed.slice(0, 1) })).toEqual({
      settled: 1,
      dead: [late.seqs[0]],
    });
    await claim();
    expect(await settleAll({ token: late.token, failed })).toEqual({ settled: 0, dead: [] });
  });

  it('still settles after its lease when nobody has claimed since', async () => {
    await insert({});
    const { token, seqs } = await claim(1);
    expect(await settle({ token, sent: seqs })).toBe(1);
  });

  it('renews a lease, so that nobody else gets the message', async () => {
    await insert({}, {});
    const { token, seqs } = await claim(300);
    expect(await pg.withRunner((runner) => pg.dialect.outbox.renew(runner, token, 60_000, seqs))).toBe(2);
    await pg.database.query('SELECT pg_sleep(0.4)');
    expect((await claim()).rows).toEqual([]);
  });

  it('C24: holds back what is behind a message in flight or waiting for its retry, of its own key only', async () => {
    await insert(
      { body: 'a1', orderingKey: 'a' },
      { body: 'a2', orderingKey: 'a' },
      { body: 'b1', orderingKey: 'b' },
    );
    const first = await claim(60_000, randomUUID(), 1);
    expect(first.bodies).toEqual(['a1']);
    const second = await claim();
    expect(second.bodies).toEqual(['b1']);
    await settle({ token: first.token, failed: [{ seq: first.seqs[0]!, error: 'x', next: 60_000 }] });
    expect((await claim()).rows).toEqual([]);
    await pg.database.query('UPDATE outbox_message SET available_at = now()');
    expect((await claim()).bodies).toEqual(['a1', 'a2']);
  });

  it('C24: lets a key go on behind a dead message and behind a planned one', async () => {
    await insert(
      { body: 'a1', orderingKey: 'a' },
      { body: 'later', orderingKey: 'a', delay: 60_000 },
      { body: 'a2', orderingKey: 'a' },
    );
    const { token, seqs, bodies } = await claim();
    expect(bodies).toEqual(['a1', 'a2']);
    await settle({ token, failed: [{ seq: seqs[0]!, error: 'x', next: 'dead' }], released: [seqs[1]!] });
    expect((await claim()).bodies).toEqual(['a2']);
  });

  it('does not wait for a row that somebody is changing, nor overtake it within its key', async () => {
    await insert(
      { body: 'a1', orderingKey: 'a' },
      { body: 'a2', orderingKey: 'a' },
      { body: 'b1', orderingKey: 'b' },
    );
    await pg.withRunner((user) =>
      inTransaction(user, async () => {
        await user.query(`SELECT 1 FROM outbox_message WHERE body = 'a1' FOR UPDATE`);
        expect((await claim()).bodies).toEqual(['b1']);
      }),
    );
    expect((await claim()).bodies).toEqual(['a1', 'a2']);
  });

  it('C23: sends what was committed late, although its number is lower', async () => {
    await pg.withRunner((slow) =>
      inTransaction(slow, async () => {
        await pg.dialect.outbox.insert(slow, [outboxRow({ body: 'A' })]);
        await insert({ body: 'B' });
        const { token, seqs, bodies } = await claim();
        expect(bodies).toEqual(['B']);
        await settle({ token, sent: seqs });
      }),
    );
    expect((await claim()).bodies).toEqual(['A']);
  });

  it('C47: keeps numbers beyond 2^53 apart', async () => {
    await pg.database.query(`SELECT setval('outbox_message_seq_seq', 9007199254740991)`);
    await insert({ body: '1' }, { body: '2' }, { body: '3' });
    await pg.database.query(
      `UPDATE outbox_message SET body = '{"a":9007199254740993,"b":1.10}' WHERE body = '1'`,
    );
    const { token, seqs, bodies } = await claim();
    expect(seqs).toEqual(['9007199254740992', '9007199254740993', '9007199254740994']);
    expect(bodies[0]).toBe('{"a":9007199254740993,"b":1.10}');
    const failed = [{ seq: seqs[1]!, error: 'x', next: 60_000 }];
    expect(await settle({ token, sent: [seqs[0]!], failed, released: [seqs[2]!] })).toBe(3);
    expect(await stored()).toMatchObject([
      { body: '2', attempts: 1 },
      { body: '3', attempts: 0 },
    ]);
  });

  it('claims in bounded bites what comes due all at once', async () => {
    await insert(...Array.from({ length: 50 }, (_, i) => ({ body: String(i), delay: 1 })));
    await pg.database.query('SELECT pg_sleep(0.01)');
    const bites: number[] = [];
    while (await isDue()) bites.push((await claim(60_000, randomUUID(), 8)).rows.length);
    expect(Math.max(...bites)).toBe(8);
    expect(bites.reduce((sum, n) => sum + n)).toBe(50);
  });

  it('cleanup deletes sent rows only, in batches, and those with a deduplication key after 24 hours', async () => {
    const old = (days: number) => `now() - interval '${days} days'`;
    const rows: [body: string, status: string, settled: string, key: string][] = [
      ['sent, 8 days', 'sent', old(8), 'NULL'],
      ['sent, 9 days', 'sent', old(9), 'NULL'],
      ['sent today', 'sent', 'now()', 'NULL'],
      ['dead, 40 days', 'dead', old(40), 'NULL'],
      ['ready', 'ready', 'NULL', 'NULL'],
      ['scheduled', 'scheduled', 'NULL', 'NULL'],
      ['key, 12 hours', 'sent', `now() - interval '12 hours'`, `'a'`],
      ['key, 2 days', 'sent', old(2), `'b'`],
    ];
    for (const [body, status, settled, key] of rows) {
      await pg.database.query(`
        INSERT INTO outbox_message (message_id, exchange, routing_key, body, status, settled_at, deduplication_key, created_at)
        VALUES (gen_random_uuid(), 'e', 'r', '${body}', '${status}', ${settled}, ${key}, ${old(40)})`);
    }
    const deleteSent = (age: number, limit: number) =>
      pg.withRunner((runner) => pg.dialect.outbox.deleteSent(runner, age, limit));
    const bodies = async () => (await stored()).map(({ body }) => body);

    expect(await deleteSent(7 * DAY, 1)).toBe(1);
    expect(await bodies()).not.toContain('sent, 9 days');
    expect(await deleteSent(7 * DAY, 100)).toBe(1);
    expect(await deleteSent(1_000, 100)).toBe(1);
    expect(await bodies()).toEqual(['sent today', 'dead, 40 days', 'ready', 'scheduled', 'key, 12 hours']);
  });

  it('cleanup of the inbox deletes done rows only, in batches, and waits for nobody', async () => {
    await pg.database.query(`
      INSERT INTO inbox_message (consumer, message_id, status, processed_at, received_at)
      SELECT 'c', status || n, status, CASE status WHEN 'done' THEN now() - interval '8 days' * n END, now() - interval '40 days'
      FROM unnest(ARRAY['done', 'seen', 'open', 'dead']) AS status, generate_series(0, 2) AS n`);
    await pg.withRunner((user) =>
      inTransaction(user, async () => {
        await user.query(`SELECT 1 FROM inbox_message WHERE message_id = 'done2' FOR UPDATE`);
        await pg.withRunner((own) => pg.dialect.inbox.take(own, { consumer: 'c', messageId: 'new' }));
        const deleteDone = () => pg.withRunner((runner) => pg.dialect.inbox.deleteDone(runner, 7 * DAY, 1));
        expect([await deleteDone(), await deleteDone()]).toEqual([1, 0]);
      }),
    );
    const left = await pg.database.query(
      `SELECT message_id FROM inbox_message WHERE status = 'done' ORDER BY 1`,
    );
    expect(left).toEqual([{ message_id: 'done0' }, { message_id: 'done2' }, { message_id: 'new' }]);
    expect(await pg.database.query(`SELECT 1 FROM inbox_message WHERE status <> 'done'`)).toHaveLength(9);
  });
});
