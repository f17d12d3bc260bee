import { randomUUID } from 'node:crypto';
import type { QueryRunner } from 'typeorm';
import { inTransaction, openPostgres, waitUntilBlocked, type Postgres } from './postgres';

/** P1, steps 6 to 9: which statement may change which row. */
describe('the statements about kept messages', () => {
  let pg: Postgres;
  beforeAll(async () => (pg = await openPostgres()));
  beforeEach(() => pg.database.query('TRUNCATE inbox_message'));
  afterAll(() => pg.close());

  const own = <T>(work: (runner: QueryRunner) => Promise<T>) =>
    pg.withRunner((runner) => inTransaction(runner, work));
  const message = (messageId: string, orderingKey: string | null = null) => ({
    consumer: 'c',
    messageId,
    exchange: 'e',
    routingKey: 'r',
    redelivered: false,
    body: Buffer.from([0, 1, 255]),
    headers: '{"h":1}',
    properties: null,
    orderingKey,
  });
  const claim = (token = randomUUID(), lease = 60_000, limit = 10) =>
    own((runner) => pg.dialect.inbox.claimKept(runner, { token, lease, limit, consumers: ['c'] }));
  const status = async (id: string) =>
    (
      await pg.database.query<{ status: string }>('SELECT status FROM inbox_message WHERE message_id = $1', [
        id,
      ])
    )[0]?.status;

  it('G7: neither a copy nor a late owner changes what is open, in progress, done or dead', async () => {
    const { inbox } = pg.dialect;
    const failure = { attempts: 1, error: 'e', delay: 0 };
    const [slow, quick] = [randomUUID(), randomUUID()];
    const copies = async (id: string) => [
      await own((runner) => inbox.store(runner, [message(id)])),
      await own((runner) => inbox.keep(runner, message(id), failure)),
      await own((runner) => inbox.bury(runner, message(id), 'e')),
      await own((runner) => inbox.take(runner, message(id))),
      await own((runner) => inbox.countRedelivery(runner, message(id))),
    ];
    const nothing = [[], false, false, false, undefined];

    expect(await own((runner) => inbox.store(runner, [message('m')]))).toHaveLength(1);
    expect(await copies('m')).toEqual(nothing);
    expect(await status('m')).toBe('open');

    expect(await claim(slow, 0)).toMatchObject([{ messageId: 'm', body: Buffer.from([0, 1, 255]) }]);
    expect(await copies('m')).toEqual(nothing);
    expect(await status('m')).toBe('in_progress');

    // The first owner is paused beyond its lease.
    expect(await claim(quick)).toMatchObject([{ messageId: 'm', suspect: true }]);
    const late = { key: message('m'), token: slow, attempts: 1, error: 'e', next: 0 as const };
    expect(await own((runner) => inbox.takeKept(runner, message('m'), slow))).toBe(false);
    expect(await own((runner) => inbox.failKept(runner, late))).toBe(false);
    expect(await own((runner) => inbox.renewKept(runner, slow, 1_000, [message('m')]))).toBe(0);
    expect(await own((runner) => inbox.takeKept(runner, message('m'), quick))).toBe(true);
    expect(await status('m')).toBe('done');
    expect(await copies('m')).toEqual(nothing);
    expect(await own((runner) => inbox.takeKept(runner, message('m'), slow))).toBe(false);
    expect(await own((runner) => inbox.takeKept(runner, message('m'), quick))).toBe(false);
    expect(await status('m')).toBe('done');
  });

  it('G11: a message that is replayed while a later one of its key is lost keeps nobody waiting for ever', async () => {
    const { inbox } = pg.dialect;
    await own((runner) => inbox.store(runner, [message('early', 'k')]));
    await pg.database.query("UPDATE inbox_message SET status = 'dead', attempts = 3");
    await own((runner) => inbox.store(runner, [message('late', 'k')]));
    expect(await claim(randomUUID(), 0)).toMatchObject([{ messageId: 'late' }]);
    await pg.database.query(
      "UPDATE inbox_message SET status = 'open', attempts = 0 WHERE message_id = 'early'",
    );
    const token = randomUUID();
    expect(await claim(token)).toMatchObject([{ messageId: 'late', suspect: true }]);
    expect(await claim()).toEqual([]);
    expect(await own((runner) => inbox.takeKept(runner, message('late'), token))).toBe(true);
    expect(await claim()).toMatchObject([{ messageId: 'early' }]);
  });

  it('G7: a copy that was looked at before the first was done does not open it again', async () => {
    const { inbox } = pg.dialect;
    await pg.withRunner(async (first) => {
      await first.startTransaction();
      expect(await inbox.take(first, message('m'))).toBe(true);
      // It sees no row yet, and waits at the key.
      const copy = own((runner) => inbox.store(runner, [message('m')]));
      await waitUntilBlocked(pg);
      await first.commitTransaction();
      expect(await copy).toEqual([]);
    });
    expect(await status('m')).toBe('done');
  });

  it('a copy of a message that is being handled does not wait for its end, nor do others in one statement with it', async () => {
    const { inbox } = pg.dialect;
    const token = randomUUID();
    await own((runner) => inbox.store(runner, [message('running')]));
    await claim(token);
    await pg.withRunner(async (handler) => {
      await handler.startTransaction();
      expect(await inbox.takeKept(handler, message('running'), token)).toBe(true);
      const stored = await own((runner) => inbox.store(runner, [message('running'), message('other')]));
      expect(stored).toMatchObject([{ consumer: 'c', messageId: 'other' }]);
      expect(await own((runner) => inbox.countRedelivery(runner, message('running')))).toBeUndefined();
      expect(await own((runner) => inbox.take(runner, message('running')))).toBe(false);
      await handler.rollbackTransaction();
    });
  });

  it('G6, G7: what is stored as claimed belongs to its token, and is a suspect when nobody came back', async () => {
    const { inbox } = pg.dialect;
    const [now, later] = [message('now'), message('later')];
    const token = randomUUID();
    const storing = { token, lease: 60_000, messages: new Set([now]) };
    await own((runner) => inbox.countRedelivery(runner, now));
    const stored = await own((runner) => inbox.store(runner, [now, later], storing));
    expect(stored).toMatchObject([{ messageId: 'now', attempts: 1 }, { messageId: 'later' }]);
    expect(await own((runner) => inbox.store(runner, [now], storing))).toEqual([]);
    expect((await claim()).map(({ messageId }) => messageId)).toEqual(['later']);
    expect(await own((runner) => inbox.renewKept(runner, token, 0, [now]))).toBe(1);
    // Its lease has run out by that.
    const other = randomUUID();
    expect(await claim(other)).toMatchObject([{ messageId: 'now', suspect: true, body: now.body }]);
    expect(await own((runner) => inbox.takeKept(runner, now, token))).toBe(false);
    expect(await own((runner) => inbox.takeKept(runner, now, other))).toBe(true);
    expect(await status('now')).toBe('done');
  });

  it('of a key the first is claimed, and none while one is in progress', async () => {
    const { inbox } = pg.dialect;
    const all = [message('a1', 'a'), message('a2', 'a'), message('b1', 'b'), message('free')];
    await own((runner) => inbox.store(runner, all));
    const token = randomUUID();
    expect((await claim(token)).map(({ messageId }) => messageId)).toEqual(['a1', 'b1', 'free']);
    expect(await claim()).toEqual([]);
    // Waiting for its retry it holds its key back; dead it does not.
    const failed = { key: message('a1', 'a'), token, attempts: 1, error: 'e' };
    await own((runner) => inbox.failKept(runner, { ...failed, next: 60_000 }));
    expect(await claim()).toEqual([]);
    await pg.database.query("UPDATE inbox_message SET status = 'dead' WHERE message_id = 'a1'");
    const next = randomUUID();
    expect((await claim(next)).map(({ messageId }) => messageId)).toEqual(['a2']);
    // Replayed meanwhile, it waits for the one that is in progress.
    await pg.database.query(
      "UPDATE inbox_message SET status = 'open', attempts = 0, available_at = now() WHERE message_id = 'a1'",
    );
    expect(await claim()).toEqual([]);
    await own((runner) => inbox.takeKept(runner, message('a2', 'a'), next));
    expect((await claim()).map(({ messageId }) => messageId)).toEqual(['a1']);
  });
});
