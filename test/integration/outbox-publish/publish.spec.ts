import { setTimeout as sleep } from 'node:timers/promises';
import type { EntityManager, QueryRunner } from 'typeorm';
import { OutboxService } from '../../../lib/outbox/outbox.service';
import type { OutboxMessage, PublishOptions } from '../../../lib/outbox/publish-options';
import { decodeTable } from '../../../lib/message/amqp-codec';
import { DuplicateMessageError } from '../../../lib/persistence/duplicate-message.error';
import { PostgresTransactionGuard } from '../../../lib/persistence/postgres/transaction-status';
import { installBridge } from '../../../lib/transaction/bridge';
import { TransactionRequiredError } from '../../../lib/transaction/transaction-required.error';
import { Transactions } from '../../../lib/transaction/transactions';
import { openPostgres, type Postgres } from '../persistence/postgres';

type Stored = Record<string, unknown> & { body: string; message_id: string };

describe('OutboxService', () => {
  let pg: Postgres;
  let unbridge: () => void;
  let outbox: OutboxService;
  let notified = 0;

  beforeAll(async () => {
    pg = await openPostgres();
    await pg.database.query('CREATE TABLE business (n int)');
    unbridge = installBridge(pg.dataSource, new PostgresTransactionGuard());
    outbox = service({ requireTransaction: true });
  });
  afterAll(async () => {
    unbridge();
    await pg.close();
  });
  beforeEach(async () => {
    notified = 0;
    await pg.database.query('TRUNCATE outbox_message; TRUNCATE business');
  });

  function service({ requireTransaction }: { requireTransaction: boolean }): OutboxService {
    return new OutboxService({
      dataSource: pg.dataSource,
      statements: pg.dialect.outbox,
      transactions: new Transactions(pg.dataSource),
      notify: () => notified++,
      requireTransaction,
    });
  }

  const inTransaction = <T>(work: (manager: EntityManager) => Promise<T>) => pg.dataSource.transaction(work);
  const publish = (payload: unknown, options?: PublishOptions) =>
    inTransaction(() => outbox.publish('e', 'r', payload, options));
  const stored = () => pg.database.query<Stored>('SELECT * FROM outbox_message ORDER BY seq');
  const message = (payload: unknown, options: OutboxMessage['options'] = {}): OutboxMessage => ({
    exchange: 'e',
    routingKey: 'r',
    payload,
    options,
  });

  describe('and the transaction', () => {
    it('G1: writes with the active one, and wakes the dispatcher after its commit', async () => {
      const id = await inTransaction(async (manager) => {
        await manager.query('INSERT INTO business VALUES (1)');
        const written = await outbox.publish('e', 'r', { a: 1 });
        expect(await stored()).toEqual([]);
        expect(notified).toBe(0);
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
      expect(notified).toBe(1);
    });

    it('G1: leaves nothing, and wakes nobody, when it rolls back', async () => {
      const work = inTransaction(async () => {
        await outbox.publish('e', 'r', 1);
        throw new Error('no');
      });
      await expect(work).rejects.toThrow('no');
      expect(await stored()).toEqual([]);
      expect(notified).toBe(0);
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
      expect(notified).toBeGreaterThan(0);
    });

    it('writes on its own with requireTransaction: false, and joins where there is one', async () => {
      const free = service({ requireTransaction: false });
      const id = await free.publish('e', 'r', 1);
      expect(await stored()).toMatchObject([{ message_id: id }]);
      expect(notified).toBe(1);
      await inTransaction(async () => {
        await free.publish('e', 'r', 2);
        throw new Error('no');
      }).catch(() => undefined);
      expect(await stored()).toHaveLength(1);
    });
  });

  describe('and what it is given', () => {
    it('keeps the order and the ids of many, in one statement', async () => {
      const query = jest.spyOn(pg.dialect.outbox, 'insert');
      const messages = Array.from({ length: 500 }, (_, i) =>
        message(i, i % 2 ? { messageId: `id-${i}` } : { orderingKey: `k${i % 7}` }),
      );
      const ids = await inTransaction(() => outbox.publishMany(messages));
      expect(query).toHaveBeenCalledTimes(1);
      query.mockRestore();
      const rows = await stored();
      expect(rows.map((row) => row.message_id)).toEqual(ids);
      expect(rows.map((row) => Number(row.body))).toEqual(messages.map((_, i) => i));
      expect(ids[1]).toBe('id-1');
    });

    it('C46: stores the body as it will be sent, whatever happens to the payload later', async () => {
      const payload = { n: 1 };
      await inTransaction(async () => {
        const written = outbox.publish('e', 'r', payload);
        payload.n = 2;
        await written;
        payload.n = 3;
      });
      for (const each of [
        [1, 2, 3],
        [],
        'text',
        '{"a":1}',
        '',
        0,
        false,
        null,
        {},
        { a: undefined },
        new Date(0),
      ]) {
        await publish(each);
      }
      await publish(Buffer.from([0, 255, 1]));
      const rows = await stored();
      expect(rows.map(({ body }) => body)).toEqual([
        ...['{"n":1}', '[1,2,3]', '[]', '"text"', '"{\\"a\\":1}"', '""', '0', 'false', 'null', '{}', '{}'],
        '"1970-01-01T00:00:00.000Z"',
        'AP8B',
      ]);
      expect(rows.at(-1)).toMatchObject({ body_encoding: 'base64' });
    });

    it('C45: carries every character, in bodies, keys, headers and routing keys', async () => {
      const payload = { nul: 'a\0b', lone: '\ud800', emoji: '👩‍👩‍👧‍👦 𝒳' };
      const headers = { emoji: '👩‍👩‍👧‍👦', nul: 'a\0b', bytes: Buffer.from([0, 1]) };
      await inTransaction(() =>
        outbox.publish('e', 'größe.é', payload, {
          orderingKey: '🔑',
          headers,
          correlationId: 'ü',
          CC: 'other',
        }),
      );
      const [row] = await stored();
      expect(JSON.parse(row!.body)).toEqual(payload);
      expect(row).toMatchObject({ routing_key: 'größe.é', ordering_key: '🔑' });
      expect(decodeTable(row!.headers as string)).toEqual(headers);
      expect(decodeTable(row!.properties as string)).toEqual({ correlationId: 'ü', CC: ['other'] });
    });

    it('C14 (d): takes ids of exactly 255 bytes', async () => {
      const ids = ['x'.repeat(255), 'é'.repeat(127)];
      expect(
        await inTransaction(() => outbox.publishMany(ids.map((messageId) => message(1, { messageId })))),
      ).toEqual(ids);
    });

    const cycle: Record<string, unknown> = {};
    cycle.self = cycle;
    it.each<[name: string, payload: unknown, options: object]>([
      ['C46: undefined', undefined, {}],
      ['C46: a Map', new Map(), {}],
      ['C47: a BigInt', { id: 10n }, {}],
      ['C47: a cycle', cycle, {}],
      [
        'C47: a toJSON that throws',
        {
          toJSON: () => {
            throw new Error('no');
          },
        },
        {},
      ],
      ['C14 (a): an id of 300 characters', 1, { messageId: 'x'.repeat(300) }],
      ['C12: a blank id', 1, { messageId: '  ' }],
      ['C45: NUL in an ordering key', 1, { orderingKey: 'a\0b' }],
      ['C51: an invalid date', 1, { deliverAt: new Date(NaN) }],
      ['C51: the last date of JavaScript', 1, { deliverAt: new Date(8.64e15) }],
      ['C51: a date as text', 1, { deliverAt: '2030-01-01' }],
      ['C51: a date as number', 1, { deliverAt: 1 }],
      ['a header that is a function', 1, { headers: { f: () => 1 } }],
      ['a property that AMQP cannot carry', 1, { correlationId: 'x'.repeat(256) }],
      ['an option that does not exist', 1, { orderingkey: 'k' }],
    ])('refuses %s before any SQL, and the transaction stays usable', async (_, payload, options) => {
      const insert = jest.spyOn(pg.dialect.outbox, 'insert');
      await inTransaction(async (manager) => {
        await manager.query('INSERT INTO business VALUES (1)');
        await expect(outbox.publish('e', 'r', payload, options)).rejects.toThrow(
          'Cannot publish the message',
        );
        await expect(outbox.publishMany([message(1), message(payload, options), message(1)])).rejects.toThrow(
          'Cannot publish the message',
        );
        await manager.query('SELECT 1');
      });
      expect(insert).not.toHaveBeenCalled();
      insert.mockRestore();
      expect(await pg.database.query('SELECT n FROM business')).toEqual([{ n: 1 }]);
      expect(await stored()).toEqual([]);
    });

    it('tells of a message id that exists already', async () => {
      await publish(1, { messageId: 'same' });
      await expect(publish(2, { messageId: 'same' })).rejects.toThrow(DuplicateMessageError);
      await expect(
        inTransaction(() =>
          outbox.publishMany([message(1, { messageId: 'x' }), message(1, { messageId: 'x' })]),
        ),
      ).rejects.toThrow(/occurs twice/);
    });
  });

  describe('and deduplication keys', () => {
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
      await sleep(100);
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

  describe('and dates', () => {
    it('C51: plans what lies ahead and sends at once what does not', async () => {
      const dates = [
        '1969-12-31T23:59:59.000Z',
        '1970-01-01T00:00:00.000Z',
        '0001-01-01T00:00:00.000Z',
        '2038-01-20T00:00:00.700Z',
        '2500-01-01T00:00:00.000Z',
        '9999-12-31T23:59:59.999Z',
      ];
      await inTransaction(() =>
        outbox.publishMany(dates.map((date) => message(date, { deliverAt: new Date(date) }))),
      );
      const rows = await stored();
      expect(rows.map((row) => row.status)).toEqual([
        'ready',
        'ready',
        'ready',
        'scheduled',
        'scheduled',
        'scheduled',
      ]);
      const read = await pg.database.query<{ ms: string }>(
        'SELECT (extract(epoch FROM available_at) * 1000)::numeric(20)::text AS ms FROM outbox_message ORDER BY seq',
      );
      expect(read.map(({ ms }) => new Date(Number(ms)).toISOString())).toEqual(dates);
    });

    it("takes a delay on the database's clock, and an end", async () => {
      await publish(1, { delay: '1m', expiresAt: new Date('2030-01-01') });
      await publish(2, { delay: 0 });
      const rows = await pg.database.query(`
        SELECT status, round(extract(epoch FROM available_at - created_at))::int AS delay,
          expires_at = '2030-01-01T00:00:00Z' AS expires
        FROM outbox_message ORDER BY seq`);
      expect(rows).toEqual([
        { status: 'scheduled', delay: 60, expires: true },
        { status: 'ready', delay: 0, expires: null },
      ]);
    });
  });
});
