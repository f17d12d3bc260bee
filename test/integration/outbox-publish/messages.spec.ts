import type { EntityManager } from 'typeorm';
import { decodeTable } from '../../../lib/message/amqp-codec';
import type { OutboxService } from '../../../lib/outbox/outbox.service';
import type { PublishOptions } from '../../../lib/outbox/publish-options';
import { DuplicateMessageError } from '../../../lib/persistence/duplicate-message.error';
import type { Postgres } from '../persistence/postgres';
import { message, openOutbox, type OpenOutbox } from './open-outbox';

describe('What is published', () => {
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
      await expect(outbox.publish('e', 'r', payload, options)).rejects.toThrow('Cannot publish the message');
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
