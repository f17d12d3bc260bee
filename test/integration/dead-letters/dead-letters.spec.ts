import { DeadLetterService } from '../../../lib/dead-letters/dead-letter.service';
import type { DeadLetterFilter, DeadLetterId, DeadLetterQuery } from '../../../lib/dead-letters/dead-letter';
import { InvalidArgumentError } from '../../../lib/message/invalid-argument.error';
import { PostgresTransactionGuard } from '../../../lib/persistence/postgres/transaction-status';
import { installBridge } from '../../../lib/transaction/bridge';
import { Transactions } from '../../../lib/transaction/transactions';
import { openPostgres, waitUntilBlocked, type Postgres } from '../persistence/postgres';

const OUTBOX = { box: 'outbox' } as const;
const INBOX = { box: 'inbox' } as const;

describe('DeadLetterService', () => {
  let pg: Postgres;
  let service: DeadLetterService;
  let undoBridge: () => void;
  const notified: string[] = [];

  beforeAll(async () => {
    pg = await openPostgres();
    undoBridge = installBridge(pg.dataSource, new PostgresTransactionGuard());
    service = new DeadLetterService({
      dataSource: pg.dataSource,
      transactions: new Transactions(pg.dataSource),
      statements: pg.dialect.deadLetters,
      notify: { outbox: () => notified.push('outbox'), inbox: () => notified.push('inbox') },
    });
  });
  afterAll(async () => {
    undoBridge();
    await pg.close();
  });
  beforeEach(async () => {
    notified.length = 0;
    await pg.database.query('TRUNCATE outbox_message; TRUNCATE inbox_message');
  });

  /** Dead ones and three of other states, which nobody may touch. */
  const fill = (count = 10) =>
    pg.database.query(`
      INSERT INTO outbox_message (message_id, exchange, routing_key, body, status, attempts, last_error, settled_at,
        ordering_key, created_at)
      SELECT 'm' || n, 'e' || n % 2, 'r', n::text, 'dead', 10, 'Error ' || n, now() - n * interval '1 hour', 'k',
        now() - interval '9 days'
      FROM generate_series(1, ${count}) AS n;
      INSERT INTO outbox_message (message_id, exchange, routing_key, body, status, settled_at)
      VALUES ('ready', 'e', 'r', '1', 'ready', NULL), ('scheduled', 'e', 'r', '1', 'scheduled', NULL),
        ('sent', 'e', 'r', '1', 'sent', now());
      INSERT INTO inbox_message (consumer, message_id, status, attempts, exchange, routing_key, body, last_error,
        processed_at, received_at)
      SELECT 'c' || n % 2, 'm' || n, 'dead', 10, 'e', 'r', '{"n":1}', 'Error ' || n, now() - n * interval '1 hour',
        now() - interval '9 days'
      FROM generate_series(1, ${count}) AS n;
      INSERT INTO inbox_message (consumer, message_id, status, body, processed_at)
      VALUES ('c1', 'done', 'done', NULL, now()), ('c1', 'seen', 'seen', NULL, NULL)`);
  const states = (box: 'outbox' | 'inbox') =>
    pg.database.query<{ id: string; status: string; attempts: number }>(
      `SELECT message_id AS id, status, attempts FROM ${box}_message ORDER BY seq`,
    );
  const ids = async (query: DeadLetterQuery) =>
    (await service.list(query)).letters.map(({ messageId }) => messageId);

  describe('lists', () => {
    it('dead messages only, the ones stored last first, with everything about them', async () => {
      await fill(3);
      expect(await ids(OUTBOX)).toEqual(['m3', 'm2', 'm1']);
      expect(await ids(INBOX)).toEqual(['m3', 'm2', 'm1']);
      const [outbox] = (await service.list(OUTBOX)).letters;
      expect(outbox).toEqual({
        ...{ box: 'outbox', messageId: 'm3', transport: 'rabbitmq', exchange: 'e1', routingKey: 'r' },
        ...{ orderingKey: 'k', attempts: 10, error: 'Error 3' },
        ...{ storedAt: expect.any(Date), diedAt: expect.any(Date) },
      });
      expect(Math.round((Date.now() - outbox!.diedAt.getTime()) / 3_600_000)).toBe(3);
      expect(Math.round((Date.now() - outbox!.storedAt.getTime()) / 86_400_000)).toBe(9);
      const [inbox] = (await service.list(INBOX)).letters;
      expect(inbox).toMatchObject({
        box: 'inbox',
        messageId: 'm3',
        consumer: 'c1',
        exchange: 'e',
        error: 'Error 3',
      });
    });

    it.each<[string, DeadLetterQuery, string[]]>([
      ['exchange', { box: 'outbox', exchange: 'e0' }, ['m10', 'm8', 'm6', 'm4', 'm2']],
      ['routing key', { box: 'outbox', routingKey: 'other' }, []],
      ['transport', { box: 'outbox', transport: 'local' }, []],
      ['consumer', { box: 'inbox', consumer: 'c1' }, ['m9', 'm7', 'm5', 'm3', 'm1']],
      ['error, whatever the case', { box: 'outbox', errorContains: 'eRROR 1' }, ['m10', 'm1']],
      ['error, where % is a character', { box: 'inbox', errorContains: '%' }, []],
      ['several', { box: 'outbox', exchange: 'e1', errorContains: '9' }, ['m9']],
      ['nothing, where a value is undefined', { box: 'outbox', errorContains: undefined, limit: 1 }, ['m10']],
    ])('filtered by %s', async (_, query, expected) => {
      await fill();
      expect(await ids(query)).toEqual(expected);
    });

    it('filtered by the date of death', async () => {
      await fill();
      const ago = (hours: number) => new Date(Date.now() - hours * 3_600_000);
      for (const box of ['outbox', 'inbox'] as const) {
        expect(await ids({ box, diedAfter: ago(2.5) })).toEqual(['m2', 'm1']);
        expect(await ids({ box, diedAfter: ago(4.5), diedBefore: ago(2.5) })).toEqual(['m4', 'm3']);
      }
    });

    it.each(['outbox', 'inbox'] as const)(
      'the %s in pages that are stable while others die and are replayed',
      async (box) => {
        await fill(7);
        const seen: string[] = [];
        let after: string | undefined;
        do {
          const page = await service.list({ box, limit: 3, after });
          seen.push(...page.letters.map(({ messageId }) => messageId));
          after = page.next;
          if (seen.length === 3) {
            await service.replay({ box, messageId: 'm6', consumer: 'c0' });
            await pg.database.query(
              box === 'outbox'
                ? `INSERT INTO outbox_message (message_id, exchange, routing_key, body, status) VALUES ('new', '', 'r', '', 'dead')`
                : `INSERT INTO inbox_message (consumer, message_id, status) VALUES ('c', 'new', 'dead')`,
            );
          }
        } while (after !== undefined);
        expect(seen).toEqual(['m7', 'm6', 'm5', 'm4', 'm3', 'm2', 'm1']);
      },
    );
  });

  it('gets one with its content, damaged or not; nothing else', async () => {
    await fill(1);
    await pg.database.query(
      `UPDATE outbox_message SET body = 'AAE=', body_encoding = 'base64', headers = '{"a":{"!":"$bigint","value":"5"}}',
         properties = '{broken' WHERE message_id = 'm1'`,
    );
    expect(await service.get({ box: 'outbox', messageId: 'm1' })).toMatchObject({
      ...{ messageId: 'm1', body: Buffer.from([0, 1]), headers: { a: 5n }, properties: '{broken' },
    });
    expect(await service.get({ box: 'inbox', consumer: 'c1', messageId: 'm1' })).toMatchObject({
      ...{ consumer: 'c1', body: Buffer.from('{"n":1}'), headers: null, properties: null },
    });
    expect(await service.get({ box: 'inbox', consumer: 'c2', messageId: 'm1' })).toBeUndefined();
    expect(await service.get({ box: 'outbox', messageId: 'sent' })).toBeUndefined();
  });

  describe('C56: replays', () => {
    it('one: ready at once, attempts from none, the same in everything else, and its error is still to be read', async () => {
      await fill(2);
      await pg.database.query(`UPDATE outbox_message SET expires_at = now() - interval '1 day'`);
      const before = (await pg.database.query(`SELECT * FROM outbox_message WHERE message_id = 'm1'`))[0];
      const [letter] = (await service.list({ ...OUTBOX, errorContains: 'Error 1' })).letters;
      expect(await service.replay(letter!)).toBe(1);
      expect(await service.replay(letter!)).toBe(0);
      const after = (await pg.database.query(`SELECT * FROM outbox_message WHERE message_id = 'm1'`))[0];
      expect(after).toEqual({
        ...before,
        ...{
          status: 'ready',
          attempts: 0,
          settled_at: null,
          expires_at: null,
          available_at: expect.any(Date),
        },
      });
      expect(after!.last_error).toBe('Error 1');
      expect((await states('outbox'))[1]).toEqual({ id: 'm2', status: 'dead', attempts: 10 });
      expect(notified).toEqual(['outbox']);
    });

    it('one of the inbox: open, due at once; another consumer’s of the same id stays', async () => {
      await fill(1);
      await pg.database.query(
        `INSERT INTO inbox_message (consumer, message_id, status, attempts, body) VALUES ('other', 'm1', 'dead', 10, 'x'),
           ('other', 'no body', 'dead', 10, NULL)`,
      );
      expect(await service.replay({ box: 'inbox', consumer: 'c1', messageId: 'm1' })).toBe(1);
      expect(await service.replay({ box: 'inbox', consumer: 'c1', messageId: 'm1' })).toBe(0);
      expect(await service.replay({ box: 'inbox', consumer: 'other', messageId: 'no body' })).toBe(0);
      const rows = await pg.database.query(
        `SELECT consumer, status, attempts, processed_at, last_error, available_at <= clock_timestamp() AS due
         FROM inbox_message WHERE message_id = 'm1' ORDER BY consumer`,
      );
      expect(rows).toEqual([
        ...[
          {
            consumer: 'c1',
            status: 'open',
            attempts: 0,
            processed_at: null,
            last_error: 'Error 1',
            due: true,
          },
        ],
        expect.objectContaining({ consumer: 'other', status: 'dead', attempts: 10 }),
      ]);
      expect(notified).toEqual(['inbox']);
    });

    it('each once, although many operators ask at the same time, by id and by filter', async () => {
      await fill(40);
      const byId = await Promise.all(
        Array.from({ length: 8 }, () => service.replay({ box: 'outbox', messageId: 'm1' })),
      );
      expect(byId.reduce((sum, n) => sum + n)).toBe(1);
      const byFilter = await Promise.all(Array.from({ length: 8 }, () => service.replay(INBOX)));
      expect(byFilter.reduce((sum, n) => sum + n)).toBe(40);
    });

    it('the second one who asks waits for the first: no when that commits, yes when that is rolled back', async () => {
      for (const end of ['commit', 'rollback'] as const) {
        await pg.database.query('TRUNCATE outbox_message; TRUNCATE inbox_message');
        await fill(1);
        const runner = pg.dataSource.createQueryRunner();
        await runner.startTransaction();
        await runner.query(
          `UPDATE outbox_message SET status = 'ready', attempts = 0 WHERE message_id = 'm1'`,
        );
        const second = service.replay({ box: 'outbox', messageId: 'm1' });
        await waitUntilBlocked(pg);
        await (end === 'commit' ? runner.commitTransaction() : runner.rollbackTransaction());
        await runner.release();
        expect(await second).toBe(end === 'commit' ? 0 : 1);
      }
    });

    it('thousands in bounded batches, and what dies again meanwhile only once', async () => {
      await fill(1_234);
      const original = pg.dialect.deadLetters.outbox.replay;
      const limits: number[] = [];
      const dying = new DeadLetterService({
        dataSource: pg.dataSource,
        transactions: new Transactions(pg.dataSource),
        statements: {
          ...pg.dialect.deadLetters,
          outbox: {
            ...pg.dialect.deadLetters.outbox,
            async replay(runner, criteria, batch) {
              const seqs = await original(runner, criteria, batch);
              limits.push(seqs.length);
              await runner.query(
                `UPDATE outbox_message SET status = 'dead', settled_at = now() WHERE status = 'ready'`,
              );
              return seqs;
            },
          },
        },
        notify: { outbox: () => undefined, inbox: () => undefined },
      });
      await pg.database.query(`DELETE FROM outbox_message WHERE status = 'ready'`);
      expect(await dying.replay(OUTBOX)).toBe(1_234);
      expect(limits).toEqual([500, 500, 234]);
    });

    it('by filter only what matches; other states never', async () => {
      await fill(4);
      expect(
        await service.replay({
          box: 'outbox',
          exchange: 'e1',
          diedAfter: new Date(Date.now() - 2 * 3_600_000),
        }),
      ).toBe(1);
      expect(await service.replay({ box: 'inbox', consumer: 'c0' })).toBe(2);
      expect(await states('outbox')).toEqual([
        { id: 'm1', status: 'ready', attempts: 0 },
        ...['m2', 'm3', 'm4'].map((id) => ({ id, status: 'dead', attempts: 10 })),
        ...['ready', 'scheduled', 'sent'].map((status) => ({ id: status, status, attempts: 0 })),
      ]);
      expect((await states('inbox')).map(({ status }) => status)).toEqual([
        ...['dead', 'open', 'dead', 'open', 'done', 'seen'],
      ]);
    });

    it('in the active transaction: a rollback leaves them dead, and nobody is woken', async () => {
      await fill(3);
      const before = await states('outbox');
      await expect(
        pg.dataSource.transaction(async () => {
          expect(await service.replay(OUTBOX)).toBe(3);
          expect(await service.discard(INBOX)).toBe(3);
          throw new Error('no');
        }),
      ).rejects.toThrow('no');
      expect(await states('outbox')).toEqual(before);
      expect(notified).toEqual([]);
    });
  });

  describe('discards', () => {
    it('from the outbox the row, from the inbox only the content: a late redelivery is still a duplicate', async () => {
      await fill(2);
      expect(await service.discard({ box: 'outbox', messageId: 'm1' })).toBe(1);
      expect(await service.discard({ box: 'outbox', messageId: 'm1' })).toBe(0);
      expect(await service.discard({ box: 'outbox', messageId: 'sent' })).toBe(0);
      expect(await service.discard({ box: 'inbox', consumer: 'c1', messageId: 'm1' })).toBe(1);
      expect((await states('outbox')).map(({ id }) => id)).toEqual(['m2', 'ready', 'scheduled', 'sent']);
      const [row] = await pg.database.query(
        `SELECT status, body, processed_at FROM inbox_message WHERE message_id = 'm1'`,
      );
      expect(row).toEqual({ status: 'done', body: null, processed_at: expect.any(Date) });
      const key = { consumer: 'c1', messageId: 'm1' };
      expect(await pg.withRunner((runner) => pg.dialect.inbox.take(runner, key))).toBe(false);
      expect(await service.replay({ box: 'inbox', ...key })).toBe(0);
    });

    it('by filter', async () => {
      await fill(4);
      expect(await service.discard({ box: 'outbox', errorContains: 'error 2' })).toBe(1);
      expect(await service.discard(INBOX)).toBe(4);
      expect(notified).toEqual([]);
    });
  });

  it.each<[string, (it: DeadLetterService) => Promise<unknown>]>([
    ['list(query)', (it) => it.list(undefined as unknown as DeadLetterQuery)],
    ['list({ box })', (it) => it.list({} as DeadLetterQuery)],
    ['list({ box })', (it) => it.list({ box: 'sent' } as unknown as DeadLetterQuery)],
    ['list({ limit })', (it) => it.list({ ...OUTBOX, limit: 0 })],
    ['list({ limit })', (it) => it.list({ ...OUTBOX, limit: 1_001 })],
    ['list({ after })', (it) => it.list({ ...OUTBOX, after: 'x' })],
    ['list({ consumer })', (it) => it.list({ ...OUTBOX, consumer: 'c' } as DeadLetterQuery)],
    ['list({ transport })', (it) => it.list({ ...INBOX, transport: 't' } as DeadLetterQuery)],
    ['list({ diedAfter })', (it) => it.list({ ...OUTBOX, diedAfter: new Date(NaN) })],
    ['list({ errorContains })', (it) => it.list({ ...OUTBOX, errorContains: 'a\0' })],
    ['get({ messageId })', (it) => it.get(OUTBOX as DeadLetterId)],
    ['get({ consumer })', (it) => it.get({ ...INBOX, messageId: 'm1' } as DeadLetterId)],
    ['replay({ messageId })', (it) => it.replay({ ...OUTBOX, messageId: undefined })],
    ['replay({ consumer })', (it) => it.replay({ ...INBOX, messageId: 'm1' })],
    ['discard({ exchange })', (it) => it.discard({ ...OUTBOX, exchange: undefined })],
    ['discard({ exchnge })', (it) => it.discard({ ...OUTBOX, exchnge: 'e' } as DeadLetterFilter)],
  ])('refuses at the call what could be meant otherwise (%s, case %#)', async (argument, call) => {
    await fill(1);
    const refusal = await Promise.resolve()
      .then(() => call(service))
      .catch((error: unknown) => error);
    expect(refusal).toBeInstanceOf(InvalidArgumentError);
    expect((refusal as InvalidArgumentError).argument).toBe(argument);
    expect((await states('outbox'))[0]).toEqual({ id: 'm1', status: 'dead', attempts: 10 });
  });
});
