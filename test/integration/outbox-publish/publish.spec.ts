import type { EntityManager } from 'typeorm';
import type { OutboxService } from '../../../lib/outbox/outbox.service';
import { TransactionRequiredError } from '../../../lib/transaction/transaction-required.error';
import type { Postgres } from '../persistence/postgres';
import { message, openOutbox, type OpenOutbox } from './open-outbox';

describe('Publishing and the transaction', () => {
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
  const stored = () => open.stored();

  it('G1: writes with the active one, and wakes the dispatcher after its commit', async () => {
    const id = await inTransaction(async (manager) => {
      await manager.query('INSERT INTO business VALUES (1)');
      const written = await outbox.publish('e', 'r', { a: 1 });
      expect(await stored()).toEqual([]);
      expect(open.notified).toBe(0);
      return written;
    });
    expect(await stored()).toMatchObject([
      {
        message_id: id,
        exchange: 'e',
        routing_key: 'r',
        body: '{"a":1}',
        body_encoding: 'utf8',
        status: 'ready',
      },
    ]);
    // A UUIDv7: later ids sort behind earlier ones.
    expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7/);
    expect(open.notified).toBe(1);
  });

  it('G1: leaves nothing, and wakes nobody, when it rolls back', async () => {
    const work = inTransaction(async () => {
      await outbox.publish('e', 'r', 1);
      throw new Error('no');
    });
    await expect(work).rejects.toThrow('no');
    expect(await stored()).toEqual([]);
    expect(open.notified).toBe(0);
  });

  it('C03: takes back what a savepoint published', async () => {
    await inTransaction(async (manager) => {
      await outbox.publish('e', 'r', 'A');
      await manager
        .transaction(async () => {
          await outbox.publish('e', 'r', 'B');
          throw new Error('inner');
        })
        .catch(() => undefined);
      await outbox.publish('e', 'r', 'C');
    });
    expect((await stored()).map(({ body }) => body)).toEqual(['"A"', '"C"']);
  });

  it('refuses a call outside of one, and says what to do', async () => {
    await expect(outbox.publish('e', 'r', 1)).rejects.toThrow(TransactionRequiredError);
    await expect(outbox.publishMany([message(1)])).rejects.toThrow(
      /publishMany\(\) needs an active transaction/,
    );
    await expect(outbox.publish('e', 'r', 1, { manager: pg.dataSource.manager })).rejects.toThrow(
      TransactionRequiredError,
    );
    expect(await outbox.publishMany([])).toEqual([]);
  });

  it('joins one that is driven by hand, through its manager', async () => {
    const runner = pg.dataSource.createQueryRunner();
    await runner.startTransaction();
    await outbox.publish('e', 'r', 1, { manager: runner.manager });
    await outbox.publishMany([message(2)], { manager: runner.manager });
    expect(await stored()).toEqual([]);
    await runner.commitTransaction();
    await runner.release();
    expect(await stored()).toHaveLength(2);
    expect(open.notified).toBeGreaterThan(0);
  });

  it('writes on its own with requireTransaction: false, and joins where there is one', async () => {
    const free = open.service({ requireTransaction: false });
    const id = await free.publish('e', 'r', 1);
    expect(await stored()).toMatchObject([{ message_id: id }]);
    expect(open.notified).toBe(1);
    await inTransaction(async () => {
      await free.publish('e', 'r', 2);
      throw new Error('no');
    }).catch(() => undefined);
    expect(await stored()).toHaveLength(1);
  });
});
