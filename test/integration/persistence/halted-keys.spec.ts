import { randomUUID } from 'node:crypto';
import { outboxRow } from './messages';
import { inTransaction, openPostgres, type Postgres } from './postgres';

describe('A dead message and its ordering key', () => {
  let pg: Postgres;
  beforeAll(async () => {
    pg = await openPostgres();
  });
  beforeEach(async () => {
    await pg.database.query('TRUNCATE outbox_message');
    await pg.withRunner((runner) =>
      pg.dialect.outbox.insert(
        runner,
        ['a1', 'a2', 'b1', 'none', 'a3'].map((messageId) =>
          outboxRow({ messageId, orderingKey: messageId === 'none' ? null : messageId[0] }),
        ),
      ),
    );
    await pg.database.query(
      `UPDATE outbox_message SET status = 'dead', attempts = 10, settled_at = now() WHERE message_id = 'a1'`,
    );
  });
  afterAll(() => pg.close());

  const claim = async (haltOnDead: boolean) => {
    const claimed = await pg.withRunner((runner) =>
      inTransaction(runner, () =>
        pg.dialect.outbox.claim(runner, { token: randomUUID(), lease: 60_000, limit: 10, haltOnDead }),
      ),
    );
    return claimed.map(({ messageId }) => messageId);
  };

  it('continue: the key goes on', async () => {
    expect(await claim(false)).toEqual(['a2', 'b1', 'none', 'a3']);
  });

  it('G8, halt: nothing of the key is claimed, other keys and messages without a key are', async () => {
    expect(await claim(true)).toEqual(['b1', 'none']);
    expect(await claim(true)).toEqual([]);
  });

  it('halt: a replayed message goes first, and its key follows', async () => {
    await claim(true);
    await pg.database.query(
      `UPDATE outbox_message SET status = 'ready', attempts = 0, settled_at = NULL WHERE status = 'dead'`,
    );
    expect(await claim(true)).toEqual(['a1', 'a2', 'a3']);
  });

  it('halt: a discarded message lets its key go on', async () => {
    await claim(true);
    await pg.database.query(`DELETE FROM outbox_message WHERE status = 'dead'`);
    expect(await claim(true)).toEqual(['a2', 'a3']);
  });

  it('halt: one of two dead messages is enough', async () => {
    await pg.database.query(
      `UPDATE outbox_message SET status = 'dead', settled_at = now() WHERE message_id = 'a2';
       UPDATE outbox_message SET status = 'ready', attempts = 0, settled_at = NULL WHERE message_id = 'a1'`,
    );
    expect(await claim(true)).toEqual(['b1', 'none']);
  });

  it('halt: dead messages without a key stop nothing', async () => {
    await pg.database.query(`UPDATE outbox_message SET status = 'dead' WHERE message_id = 'none'`);
    await pg.withRunner((runner) => pg.dialect.outbox.insert(runner, [outboxRow({ messageId: 'more' })]));
    expect(await claim(true)).toEqual(['b1', 'more']);
  });
});
