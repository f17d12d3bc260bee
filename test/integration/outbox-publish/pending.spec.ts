import { randomUUID } from 'node:crypto';
import { InvalidArgumentError } from '../../../lib/message/invalid-argument.error';
import type { OutboxService } from '../../../lib/outbox/outbox.service';
import { inTransaction, type Postgres } from '../persistence/postgres';
import { openOutbox, type OpenOutbox } from './open-outbox';

const tomorrow = () => new Date(Date.now() + 24 * 3_600_000);
const NOBODY = '00000000-0000-7000-8000-000000000000';

describe('Cancelling and rescheduling', () => {
  let open: OpenOutbox;
  let pg: Postgres;
  let outbox: OutboxService;
  beforeAll(async () => {
    open = await openOutbox();
    ({ pg, outbox } = open);
  });
  afterAll(() => open.close());
  beforeEach(() => open.reset());

  const claim = async () => {
    const token = randomUUID();
    const rows = await pg.withRunner((runner) =>
      inTransaction(runner, () => pg.dialect.outbox.claim(runner, { token, lease: 60_000, limit: 10 })),
    );
    return { token, rows, bodies: rows.map(({ body }) => body) };
  };
  const settle = (token: string, seq: string, next: number | 'dead') =>
    pg.withRunner((runner) =>
      pg.dialect.outbox.settle(runner, {
        ...{ token, sent: [], failed: [{ seq, error: 'x', next }], released: [], keepSent: true },
      }),
    );

  describe('of what is still open', () => {
    it.each(['ready', 'planned', 'waiting for its retry', 'with a claim that has run out'])(
      'works for one that is %s, and tells so; a second time it says no',
      async (state) => {
        const options = state === 'planned' ? { deliverAt: tomorrow() } : {};
        const [first, second] = [await open.publish('a', options), await open.publish('b', options)];
        if (state === 'waiting for its retry') {
          const { token, rows } = await claim();
          for (const { seq } of rows) await settle(token, seq, 60_000);
        }
        if (state === 'with a claim that has run out') {
          await claim();
          await pg.database.query('UPDATE outbox_message SET claimed_until = now()');
        }
        open.notified = 0;
        expect(await outbox.cancel(first)).toBe(true);
        expect(await outbox.cancel(first)).toBe(false);
        expect(await outbox.reschedule(first, new Date())).toBe(false);
        const at = tomorrow();
        expect(await outbox.reschedule(second, at)).toBe(true);
        expect(open.notified).toBe(2);
        expect(await open.stored()).toEqual([
          expect.objectContaining({
            message_id: second,
            status: 'scheduled',
            available_at: at,
            claim_token: null,
          }),
        ]);
        expect(await outbox.reschedule(second, new Date(0))).toBe(true);
        expect((await claim()).bodies).toEqual(['"b"']);
      },
    );
  });

  it.each(['claimed', 'sent', 'dead'])('does not touch one that is %s', async (state) => {
    const id = await open.publish('a');
    const { token, rows } = await claim();
    const { seq } = rows[0]!;
    if (state === 'dead') await settle(token, seq, 'dead');
    if (state === 'sent') {
      await pg.withRunner((runner) =>
        pg.dialect.outbox.settle(runner, { token, sent: [seq], failed: [], released: [], keepSent: true }),
      );
    }
    const before = await open.stored();
    expect(await outbox.cancel(id)).toBe(false);
    expect(await outbox.reschedule(id, tomorrow())).toBe(false);
    expect(await open.stored()).toEqual(before);
    expect(await outbox.cancel(NOBODY)).toBe(false);
  });

  it('belongs to the active transaction: a rollback leaves the message as it was', async () => {
    const [first, second] = [await open.publish('a'), await open.publish('b')];
    const before = await open.stored();
    open.notified = 0;
    const attempt = open.inTransaction(async (manager) => {
      await manager.query('INSERT INTO business VALUES (1)');
      expect(await outbox.cancel(first)).toBe(true);
      expect(await outbox.reschedule(second, tomorrow())).toBe(true);
      throw new Error('no');
    });
    await expect(attempt).rejects.toThrow('no');
    expect(await open.stored()).toEqual(before);
    expect(open.notified).toBe(0);

    await open.inTransaction(async (manager) => {
      await manager.query('INSERT INTO business VALUES (2)');
      expect(await outbox.cancel(first)).toBe(true);
      expect(open.notified).toBe(0);
    });
    expect((await open.stored()).map(({ message_id }) => message_id)).toEqual([second]);
    expect(await pg.database.query('SELECT n FROM business')).toEqual([{ n: 2 }]);
    expect(open.notified).toBe(1);
  });

  it('joins a transaction that is driven by hand, by its manager', async () => {
    const id = await open.publish('a');
    await pg.withRunner(async (runner) => {
      await runner.startTransaction();
      expect(await outbox.cancel(id, { manager: runner.manager })).toBe(true);
      await runner.rollbackTransaction();
    });
    expect(await open.stored()).toHaveLength(1);
  });

  it('keeps a claim from taking the message or what is behind it in its key, and nobody waits', async () => {
    const id = await open.publish('a1', { orderingKey: 'a' });
    await open.publish('a2', { orderingKey: 'a' });
    await open.publish('b1', { orderingKey: 'b' });
    await open.inTransaction(async () => {
      expect(await outbox.cancel(id)).toBe(true);
      expect((await claim()).bodies).toEqual(['"b1"']);
    });
    expect((await claim()).bodies).toEqual(['"a2"']);
  });

  it('either the claim or the cancellation gets the message, never both', async () => {
    for (let round = 0; round < 20; round++) {
      const id = await open.publish(round);
      const [{ rows }, cancelled] = await Promise.all([claim(), outbox.cancel(id)]);
      expect(rows.length).toBe(cancelled ? 0 : 1);
      await pg.database.query('TRUNCATE outbox_message');
    }
  });

  it('frees the deduplication key', async () => {
    const id = await open.publish('a', { deduplicationKey: 'd' });
    await outbox.cancel(id);
    expect(await open.publish('b', { deduplicationKey: 'd' })).not.toBe(id);
  });

  it.each<[string, (outbox: OutboxService) => Promise<boolean>]>([
    ['cancel(messageId)', (it) => it.cancel('')],
    ['cancel(messageId)', (it) => it.cancel(undefined as unknown as string)],
    ['cancel(messageId)', (it) => it.cancel('a\0')],
    ['reschedule(messageId)', (it) => it.reschedule(42 as unknown as string, new Date())],
    ['reschedule(messageId, at)', (it) => it.reschedule(NOBODY, new Date(NaN))],
    ['reschedule(messageId, at)', (it) => it.reschedule(NOBODY, new Date(8.64e15))],
    ['reschedule(messageId, at)', (it) => it.reschedule(NOBODY, '2030-01-01' as unknown as Date)],
  ])(
    'refuses at the call what cannot be (%s, case %#), and leaves the transaction usable',
    async (argument, call) => {
      await open.inTransaction(async (manager) => {
        const refusal = await call(outbox).catch((error: unknown) => error);
        expect(refusal).toBeInstanceOf(InvalidArgumentError);
        expect((refusal as InvalidArgumentError).argument).toBe(argument);
        await manager.query('SELECT 1');
      });
    },
  );
});
