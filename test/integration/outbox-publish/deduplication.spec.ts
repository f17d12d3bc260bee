import type { EntityManager, QueryRunner } from 'typeorm';
import type { OutboxService } from '../../../lib/outbox/outbox.service';
import type { PublishOptions } from '../../../lib/outbox/publish-options';
import { outboxRow } from '../persistence/messages';
import { waitUntilBlocked, type Postgres } from '../persistence/postgres';
import { message, openOutbox, type OpenOutbox } from './open-outbox';

describe('Deduplication keys', () => {
  let open: OpenOutbox;
  let pg: Postgres;
  let outbox: OutboxService;

  beforeAll(async () => {
    open = await openOutbox();
    ({ pg, outbox } = open);
  });
  afterAll(() => open.close());
  beforeEach(() => open.reset());

  const inTransaction = <T>(work: (manager: EntityManager) => Promise<T>) => open.inTransaction(work);
  const publish = (payload: unknown, options?: PublishOptions) => open.publish(payload, options);
  const stored = () => open.stored();

  it('returns the first message, within a transaction, across them and within a batch', async () => {
    const first = await publish('first', { deduplicationKey: 'd' });
    expect(await publish('second', { deduplicationKey: 'd' })).toBe(first);
    const ids = await inTransaction(() =>
      outbox.publishMany([
        message('a', { deduplicationKey: 'n', orderingKey: 'k' }),
        message('b', { deduplicationKey: 'd' }),
        message('c', { deduplicationKey: 'n' }),
        message('d'),
      ]),
    );
    expect((await stored()).map(({ body }) => body)).toEqual(['"first"', '"a"', '"d"']);
    expect(ids[1]).toBe(first);
    expect(ids[2]).toBe(ids[0]);
  });

  it.each(['commits', 'rolls back'])('waits for a concurrent one that %s', async (end) => {
    const runner: QueryRunner = pg.dataSource.createQueryRunner();
    await runner.startTransaction();
    const first = await outbox.publish('e', 'r', 'first', {
      deduplicationKey: 'd',
      manager: runner.manager,
    });
    const second = publish('second', { deduplicationKey: 'd' });
    await waitUntilBlocked(pg);
    if (end === 'commits') await runner.commitTransaction();
    else await runner.rollbackTransaction();
    await runner.release();
    const id = await second;
    if (end === 'commits') expect(id).toBe(first);
    else expect(id).not.toBe(first);
    expect((await stored()).map((row) => row.message_id)).toEqual([id]);
  });

  it('tells of each message that was not written, with the id of the first, also within a batch', async () => {
    const told: string[] = [];
    const onDuplicate = (id: string) => void told.push(id);
    const first = await publish('first', { deduplicationKey: 'd', onDuplicate });
    expect(told).toEqual([]);
    await publish('second', { deduplicationKey: 'd', onDuplicate });
    // The same id again is a duplicate too, and no violation of the ids' uniqueness.
    expect(await publish('third', { messageId: first, deduplicationKey: 'd', onDuplicate })).toBe(first);
    expect(told.splice(0)).toEqual([first, first]);
    const ids = await inTransaction(() =>
      outbox.publishMany([
        message('a', { deduplicationKey: 'n', onDuplicate }),
        message('b', { deduplicationKey: 'n', onDuplicate }),
        message('c', { deduplicationKey: 'd', onDuplicate }),
      ]),
    );
    expect(told).toEqual([ids[0], first]);
  });

  it('of two publishers at the same time one writes, and the other is told its id', async () => {
    for (let round = 0; round < 10; round++) {
      const told: string[] = [];
      const options = { deduplicationKey: `d${round}`, onDuplicate: (id: string) => void told.push(id) };
      const ids = await Promise.all([publish(1, options), publish(2, options), publish(3, options)]);
      expect(new Set(ids).size).toBe(1);
      expect(told).toEqual([ids[0], ids[0]]);
    }
    expect(await stored()).toHaveLength(10);
  });

  it('throws what onDuplicate throws, and the transaction stays usable', async () => {
    await publish('first', { deduplicationKey: 'd' });
    await inTransaction(async (manager) => {
      const onDuplicate = (id: string) => {
        throw new Error(`${id} was first`);
      };
      await expect(outbox.publish('e', 'r', 2, { deduplicationKey: 'd', onDuplicate })).rejects.toThrow(
        'first',
      );
      await manager.query('INSERT INTO business VALUES (1)');
    });
    expect(await pg.database.query('SELECT n FROM business')).toEqual([{ n: 1 }]);
  });

  it('remembers them exactly as long as asked, whether the cleaner has come by or not', async () => {
    const insert = (messageId: string) =>
      pg.withRunner((runner) =>
        pg.dialect.outbox.insert(runner, [outboxRow({ messageId, deduplicationKey: 'd' })], 60_000),
      );
    await insert('first');
    await pg.database.query(`UPDATE outbox_message SET created_at = now() - interval '9 days'`);
    expect(await insert('second')).toEqual(['first']);
    const sentAgo = (seconds: number) =>
      pg.database.query(
        `UPDATE outbox_message SET status = 'sent', settled_at = now() - interval '${seconds} seconds'`,
      );
    await sentAgo(55);
    expect(await insert('second')).toEqual(['first']);
    await pg.withRunner((runner) => pg.dialect.outbox.deleteSent(runner, 0, 10, 60_000));
    expect(await stored()).toHaveLength(1);
    await sentAgo(65);
    expect(await insert('second')).toEqual(['second']);
    expect((await stored()).map(({ deduplication_key }) => deduplication_key)).toEqual([null, 'd']);
  });

  it('remembers them for a day after the message was sent', async () => {
    const first = await publish(1, { deduplicationKey: 'd' });
    await pg.database.query(
      `UPDATE outbox_message SET status = 'sent', settled_at = now() - interval '23 hours'`,
    );
    await pg.withRunner((runner) => pg.dialect.outbox.deleteSent(runner, 0, 10));
    expect(await publish(1, { deduplicationKey: 'd' })).toBe(first);
    await pg.database.query(`UPDATE outbox_message SET settled_at = now() - interval '25 hours'`);
    await pg.withRunner((runner) => pg.dialect.outbox.deleteSent(runner, 0, 10));
    expect(await publish(1, { deduplicationKey: 'd' })).not.toBe(first);
  });
});
