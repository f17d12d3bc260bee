import type { EntityManager, QueryRunner } from 'typeorm';
import type { OutboxService } from '../../../lib/outbox/outbox.service';
import type { PublishOptions } from '../../../lib/outbox/publish-options';
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
