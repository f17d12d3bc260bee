import { setTimeout as delay } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import { DataSource, EntityManager } from 'typeorm';
import {
  OutboxHandler,
  OutboxService,
  TransactionRequiredError,
  type OutboxHandlerContext,
} from '../../../lib';
import { OutboxStore } from '../../../lib/outbox/outbox-store';
import { RecordingLogger } from '../outbox-dispatch/outbox-table';
import { startTcpProxy } from '../../support/tcp-proxy';
import { waitFor } from '../../support/wait-for';
import { LocalSetup } from './local-setup';

/** What the handlers do, message by message. */
type Script = (context: OutboxHandlerContext) => Promise<void> | void;
let script: Script = () => undefined;
const attempts: number[] = [];
let running = 0;
let most = 0;

async function play(context: OutboxHandlerContext): Promise<void> {
  attempts.push(context.attempt);
  most = Math.max(most, ++running);
  try {
    await script(context);
  } finally {
    running--;
  }
}

@Injectable()
class Handlers {
  constructor(private readonly manager: EntityManager) {}

  @OutboxHandler('save')
  async save({ name }: { name: string }, context: OutboxHandlerContext): Promise<void> {
    await this.manager.query('INSERT INTO effect (name) VALUES ($1)', [name]);
    await play(context);
  }

  @OutboxHandler('outside', { transactional: false })
  outside(_payload: unknown, context: OutboxHandlerContext): Promise<void> {
    return play(context);
  }

  @OutboxHandler('two at once', { transactional: false, concurrency: 2 })
  limited(_payload: unknown, context: OutboxHandlerContext): Promise<void> {
    return play(context);
  }

  @OutboxHandler('quick', { timeout: 300 })
  async quick({ name }: { name: string }, context: OutboxHandlerContext): Promise<void> {
    await this.manager.query('INSERT INTO effect (name) VALUES ($1)', [name]);
    await play(context);
  }

  @OutboxHandler('quick outside', { timeout: 100, transactional: false })
  quickOutside(_payload: unknown, context: OutboxHandlerContext): Promise<void> {
    return play(context);
  }

  @OutboxHandler('serializable', { isolationLevel: 'SERIALIZABLE' })
  async serializable({ name }: { name: string }, context: OutboxHandlerContext): Promise<void> {
    await this.save({ name }, context);
    const [row] = await this.manager.query<{ transaction_isolation: string }[]>('SHOW transaction_isolation');
    expect(row?.transaction_isolation).toBe('serializable');
  }

  @OutboxHandler('sql')
  async sql({ sql }: { sql: string }, context: OutboxHandlerContext): Promise<void> {
    await play(context);
    await this.manager.query(sql);
  }
}

@Injectable()
class NewHandlers {
  @OutboxHandler('new')
  handle(_payload: unknown, context: OutboxHandlerContext): Promise<void> {
    return play(context);
  }
}

let setup: LocalSetup;
beforeAll(async () => (setup = await LocalSetup.open()));
beforeEach(() => {
  script = () => undefined;
  attempts.length = 0;
  running = most = 0;
});
afterEach(async () => {
  await setup.reset();
  jest.restoreAllMocks();
});
afterAll(() => setup.close());

/** The first handlers wait until so many run at once; then all take a moment, so that more would be seen. */
const untilAtOnce = (count: number) => async () => {
  await waitFor(`${count} at once`, () => most >= count);
  await delay(5);
};

const isEmpty = () => waitFor('an empty outbox', async () => (await setup.rows()).length === 0);

describe('messages for handlers that nobody has here', () => {
  it('wait, are told of once, hold up nobody and are not asked for again and again', async () => {
    await setup.database.query(`
      INSERT INTO outbox_message (message_id, transport, exchange, routing_key, body, ordering_key, available_at)
      SELECT 'old-' || g, 'local', '', CASE WHEN g % 2 = 0 THEN 'new' ELSE 'newer' END, '{}', 'k', now() - interval '2 minutes'
      FROM generate_series(1, 10000) AS g`);
    const logger = new RecordingLogger();
    const app = await setup.start({ providers: [Handlers], logger });
    await app.enqueue('save', { name: 'a' }, { orderingKey: 'k' });
    await waitFor('the message behind them', async () => (await setup.effects()).length === 1);
    const claims = jest.spyOn(OutboxStore.prototype, 'localClaims');
    const looks = jest.spyOn(OutboxStore.prototype, 'anyLocalDue');
    await waitFor('ten looks', () => looks.mock.calls.length > 10);
    expect(claims).not.toHaveBeenCalled();
    expect(logger.lines.filter((line) => line.startsWith('warn'))).toEqual([
      expect.stringContaining('the handler "new"'),
      expect.stringContaining('the handler "newer"'),
    ]);
    const left = await setup.database.query(
      "SELECT DISTINCT status, attempts, claim_token FROM outbox_message WHERE routing_key LIKE 'new%'",
    );
    expect(left).toEqual([{ status: 'ready', attempts: 0, claim_token: null }]);
  });

  it('are done by a process that has the handler, whoever leads', async () => {
    const old = await setup.start({ providers: [Handlers], outbox: { dispatch: 'leader' } });
    await old.enqueue('new');
    const [row] = await setup.rows();
    expect(row).toMatchObject({ status: 'ready', routing_key: 'new' });
    await setup.start({ providers: [NewHandlers], outbox: { dispatch: 'leader' } });
    await isEmpty();
    expect(attempts).toEqual([1]);
  });
});

describe('G11: whatever a handler throws', () => {
  it.each(['save', 'outside'])('counts as a failure, without any text too (%s)', async (handler) => {
    const odd = [
      Object.assign(Object.create(null) as object, { odd: 1 }),
      Object.assign(new Error(), { stack: ['odd'] }),
      Symbol('odd'),
    ];
    script = ({ attempt }) => {
      // eslint-disable-next-line @typescript-eslint/only-throw-error -- what is tested
      throw odd[attempt - 1];
    };
    const app = await setup.start({ providers: [Handlers], outbox: { maxAttempts: 3 } });
    await app.enqueue(handler, { name: 'a' });
    await waitFor('it to be dead', async () => (await setup.rows())[0]?.status === 'dead');
    expect(attempts).toEqual([1, 2, 3]);
    expect(await setup.rows()).toMatchObject([{ attempts: 3, claim_token: null, last_error: 'Symbol(odd)' }]);
    expect(await setup.effects()).toEqual([]);
  });
});

describe('how many run at once', () => {
  it('of one handler as many as its concurrency says', async () => {
    script = untilAtOnce(2);
    const app = await setup.start({ providers: [Handlers] });
    await app.enqueueMany(Array.from({ length: 8 }, () => ({ handler: 'two at once', payload: {} })));
    await isEmpty();
    expect(attempts).toHaveLength(8);
    expect(most).toBe(2);
  });

  it('of all as many as outbox.maxConcurrentHandlers says', async () => {
    script = untilAtOnce(3);
    const app = await setup.start({ providers: [Handlers], outbox: { maxConcurrentHandlers: 3 } });
    await app.enqueueMany(Array.from({ length: 12 }, () => ({ handler: 'outside', payload: {} })));
    await isEmpty();
    expect(most).toBe(3);
  });

  it.each([1, 2, 3, 5])('C04: with transactions, at most the pool less two: pool of %d', async (poolSize) => {
    const expected = Math.max(1, poolSize - 2);
    script = untilAtOnce(expected);
    const app = await setup.start({ providers: [Handlers], poolSize });
    await app.enqueueMany(
      Array.from({ length: 10 }, (_, n) => ({ handler: 'save', payload: { name: `${n}` } })),
    );
    await isEmpty();
    expect(await setup.effects()).toHaveLength(10);
    expect(most).toBe(expected);
  });

  it('three hundred in one transaction are worked off by two processes, each once, without waiting for polls', async () => {
    const options = { providers: [Handlers], outbox: { pollInterval: '1h' as const } };
    const app = await setup.start(options);
    await app.enqueueMany(
      Array.from({ length: 300 }, (_, n) => ({ handler: 'save', payload: { name: `n${n}` } })),
    );
    await setup.start(options);
    await isEmpty();
    const effects = await setup.effects();
    expect(effects).toHaveLength(300);
    expect(new Set(effects).size).toBe(300);
  });

  it('C05: a slow handler does not hold up the messages of others', async () => {
    let letGo: () => void = () => undefined;
    const slow = new Promise<void>((resolve) => (letGo = resolve));
    const app = await setup.start({
      providers: [Handlers],
      outbox: { lease: 500, maxConcurrentHandlers: 3 },
    });
    script = ({ handler }) => (handler === 'save' ? slow : undefined);
    await app.enqueueMany([1, 2].map((n) => ({ handler: 'save', payload: { name: `slow-${n}` } })));
    await waitFor('two slow ones', () => running === 2);
    await waitFor('the end of their leases', async () => {
      const rows = await setup.database.query(
        'SELECT 1 FROM outbox_message WHERE claimed_until < clock_timestamp()',
      );
      return rows.length === 2;
    });
    await app.enqueueMany(
      [1, 2, 3].map((n) => ({
        handler: 'sql',
        payload: { sql: `INSERT INTO effect VALUES ('quick-${n}')` },
      })),
    );
    await waitFor('the quick ones', async () => (await setup.effects()).length === 3);
    letGo();
    await isEmpty();
    expect(await setup.effects()).toEqual(['quick-1', 'quick-2', 'quick-3', 'slow-1', 'slow-2']);
  });
});

describe('a timeout', () => {
  it('cuts off a handler with a transaction, its statement too, and counts as a failure', async () => {
    const app = await setup.start({ providers: [Handlers] });
    const reasons: unknown[] = [];
    const late: unknown[] = [];
    const manager = app.context.get(EntityManager);
    script = async ({ attempt, signal }) => {
      if (attempt > 1) return;
      await manager.query('SELECT pg_sleep(60)').catch(() => undefined);
      reasons.push(signal.reason);
      await delay(50);
      await manager
        .query("INSERT INTO effect VALUES ('late')")
        .catch((error: Error) => late.push(error.name));
    };
    await app.enqueue('quick', { name: 'a' });
    await isEmpty();
    await waitFor('the straggler', () => late.length === 1);
    expect(attempts).toEqual([1, 2]);
    expect(String(reasons[0])).toContain('took longer than its timeout of 300 ms');
    expect(late).toEqual(['TransactionEndedError']);
    expect(await setup.effects()).toEqual(['a']);
  });

  it('of a handler without a transaction: it is not begun again while it still runs, and late success is success', async () => {
    const app = await setup.start({ providers: [Handlers], outbox: { lease: 300 } });
    let aborted = 0;
    script = async ({ signal }) => {
      signal.addEventListener('abort', () => aborted++);
      await delay(900);
    };
    await app.enqueue('quick outside');
    await isEmpty();
    expect(aborted).toBe(1);
    expect(attempts).toEqual([1]);
  });

  it('of a handler without a transaction that gives up is a failure', async () => {
    const app = await setup.start({ providers: [Handlers] });
    script = async ({ signal, attempt }) => {
      if (attempt === 1) await delay(60_000, undefined, { signal });
    };
    await app.enqueue('quick outside');
    await waitFor('a failure', async () => (await setup.rows())[0]?.last_error);
    expect((await setup.rows())[0]?.last_error).toContain('timeout of 100 ms');
    await isEmpty();
    expect(attempts).toEqual([1, 2]);
  });
});

describe("what is not the message's fault uses no attempt", () => {
  it('serialization failures and deadlocks: again at once, five times', async () => {
    const app = await setup.start({ providers: [Handlers] });
    let failures = 5;
    const { context } = app;
    script = async () => {
      if (failures-- > 0)
        await context
          .get(EntityManager)
          .query("DO $$ BEGIN RAISE EXCEPTION 'conflict' USING ERRCODE = '40001'; END $$");
    };
    await app.enqueue('serializable', { name: 'a' });
    await isEmpty();
    expect(attempts).toEqual([1, 1, 1, 1, 1, 1]);
    expect(await setup.effects()).toEqual(['a']);
  });

  it('C05: a database that goes away under a handler', async () => {
    const proxy = await startTcpProxy(setup.database.url);
    const url = proxy.through(setup.database.url);
    try {
      const app = await setup.start({ providers: [Handlers], url, outbox: { lease: 2_000 } });
      let cut = false;
      script = async () => {
        if (cut) return;
        cut = true;
        proxy.cut();
        const manager = app.context.get(EntityManager);
        await waitFor('the loss', () =>
          manager.query('SELECT 1').then(
            () => false,
            () => true,
          ),
        );
        throw new Error('says nothing of a database');
      };
      await app.enqueue('save', { name: 'a' });
      await waitFor('a second run', () => attempts.length > 1);
      await isEmpty();
      expect(new Set(attempts)).toEqual(new Set([1]));
      expect(await setup.effects()).toEqual(['a']);
    } finally {
      await setup.reset();
      await proxy.close();
    }
  });

  it('C05: after an outage new messages are handled although a slow handler is still at work', async () => {
    const proxy = await startTcpProxy(setup.database.url);
    const url = proxy.through(setup.database.url);
    let letGo: () => void = () => undefined;
    try {
      const app = await setup.start({ providers: [Handlers], url });
      script = () => new Promise<void>((resolve) => (letGo = resolve));
      await app.enqueue('outside');
      await waitFor('the handler', () => running === 1);
      script = () => undefined;
      const looks = jest.spyOn(OutboxStore.prototype, 'anyLocalDue');
      await proxy.refuse();
      await waitFor('a look in vain', () => looks.mock.calls.length > 1);
      await proxy.accept();
      await setup.insert('save', { name: 'a' });
      await waitFor('the effect', async () => (await setup.effects()).length === 1);
      expect(running).toBe(1);
      letGo();
      await isEmpty();
      expect(attempts).toEqual([1, 1]);
    } finally {
      letGo();
      await setup.reset();
      await proxy.close();
    }
  });

  it('a handler without a transaction does not run twice at once in a process that has lost its claim', async () => {
    const app = await setup.start({ providers: [Handlers] });
    let letGo: () => void = () => undefined;
    script = () => new Promise<void>((resolve) => (letGo = resolve));
    await app.enqueue('outside');
    await waitFor('the handler', () => running === 1);
    await setup.database.query('UPDATE outbox_message SET claim_token = NULL, claimed_until = NULL');
    await waitFor('a new claim', async () => (await setup.rows())[0]?.claim_token);
    letGo();
    await isEmpty();
    expect(attempts).toEqual([1]);
  });

  it('a handler that kills its own connection each time has failed after some', async () => {
    const app = await setup.start({ providers: [Handlers], outbox: { lease: 1_000, maxAttempts: 1 } });
    await app.enqueue('sql', { sql: 'SELECT pg_terminate_backend(pg_backend_pid())' });
    await waitFor('a dead message', async () => (await setup.rows())[0]?.status === 'dead', {
      timeout: 25_000,
    });
    expect(attempts).toEqual([1, 1, 1, 1, 1, 1]);
  });
});

describe('bad rows', () => {
  it('C49: are dead at once with a telling error, and their neighbours are handled', async () => {
    await setup.database.query(`
      INSERT INTO outbox_message (message_id, transport, exchange, routing_key, body, body_encoding, headers) VALUES
        ('json', 'local', '', 'save', '{"name":', 'utf8', NULL), ('encoding', 'local', '', 'outside', '{}', 'latin1', NULL),
        ('headers', 'local', '', 'save', '{}', 'utf8', '[1]')`);
    const app = await setup.start({ providers: [Handlers] });
    await app.enqueue('save', { name: 'a' }, { expiresAt: new Date(Date.now() - 1_000) });
    await app.enqueue('save', { name: 'b' });
    await waitFor('their end', async () => {
      const rows = await setup.rows();
      return rows.length === 4 && rows.every(({ status }) => status === 'dead');
    });
    expect((await setup.rows()).map(({ last_error }) => last_error?.split('\n')[0])).toEqual([
      expect.stringContaining('JSON'),
      expect.stringContaining('unknown encoding "latin1"'),
      expect.stringContaining('Not a table of headers'),
      expect.stringContaining('Expired before it could be handled'),
    ]);
    expect(await setup.effects()).toEqual(['b']);
  });
});

describe('ordering keys', () => {
  it('G8: per handler and key one at a time, in commit order, over two processes and with failures', async () => {
    await setup.database.query('CREATE TABLE IF NOT EXISTS history (position serial, key text, n int)');
    const open = new Map<string, number>();
    const overlaps: string[] = [];
    script = async ({ orderingKey = '', attempt, messageId }) => {
      open.set(orderingKey, (open.get(orderingKey) ?? 0) + 1);
      if ((open.get(orderingKey) ?? 0) > 1) overlaps.push(orderingKey);
      await delay(Math.random() * 5);
      open.set(orderingKey, (open.get(orderingKey) ?? 0) - 1);
      if (attempt === 1 && messageId.endsWith('3')) throw new Error('once');
    };
    const options = { providers: [Handlers], outbox: { backoff: { initialDelay: 10, jitter: 0 } } };
    const app = await setup.start(options);
    await setup.start(options);
    await app.enqueueMany(
      Array.from({ length: 90 }, (_, i) => {
        const key = `k${i % 3}`;
        const n = Math.floor(i / 3);
        return {
          handler: 'sql',
          payload: { sql: `INSERT INTO history (key, n) VALUES ('${key}', ${n})` },
          options: { orderingKey: key, messageId: `${key}-${n}` },
        };
      }),
    );
    await isEmpty();
    expect(overlaps).toEqual([]);
    const history = await setup.database.query<{ key: string; n: number }>(
      'SELECT key, n FROM history ORDER BY position',
    );
    expect(history).toHaveLength(90);
    for (const key of ['k0', 'k1', 'k2']) {
      const order = history.filter((row) => row.key === key).map(({ n }) => n);
      expect(order).toEqual(Array.from({ length: 30 }, (_, n) => n));
    }
  });

  it('a dead one stops its key with onDeadLetter: halt, for its handler only', async () => {
    const app = await setup.start({
      providers: [Handlers],
      outbox: { onDeadLetter: 'halt', maxAttempts: 1, pollInterval: 50 },
    });
    script = ({ messageId }) => {
      if (messageId === 'bad') throw new Error('bad');
    };
    await app.enqueue('save', { name: 'bad' }, { orderingKey: 'k', messageId: 'bad' });
    await app.enqueue('save', { name: 'behind' }, { orderingKey: 'k', messageId: 'behind' });
    await app.enqueue('outside', {}, { orderingKey: 'k', messageId: 'other handler' });
    await app.enqueue('save', { name: 'other key' }, { orderingKey: 'l' });
    await waitFor('the others', async () => (await setup.rows()).length === 2);
    await delay(200);
    expect((await setup.rows()).map(({ message_id, status }) => [message_id, status])).toEqual([
      ['bad', 'dead'],
      ['behind', 'ready'],
    ]);
    expect(await setup.effects()).toEqual(['other key']);
  });
});

it('kept messages and deduplication keys are as for a broker', async () => {
  const app = await setup.start({ providers: [Handlers], outbox: { retention: '1h' } });
  await app.enqueue('save', { name: 'a' });
  await waitFor('a kept one', async () => (await setup.rows())[0]?.status === 'sent');
  await setup.reset();
  const other = await setup.start({ providers: [Handlers] });
  const first = await other.enqueue('save', { name: 'a' }, { deduplicationKey: 'd' });
  expect(await other.enqueue('save', { name: 'b' }, { deduplicationKey: 'd' })).toBe(first);
  await waitFor('a remembered one', async () => (await setup.rows())[0]?.status === 'sent');
  expect(await other.enqueue('save', { name: 'c' }, { deduplicationKey: 'd' })).toBe(first);
  expect(await setup.effects()).toEqual(['a']);
});

it('enqueue() refuses what it cannot use, before any SQL', async () => {
  const app = await setup.start({ providers: [Handlers], outbox: { dispatch: 'off' } });
  const { outbox } = app;
  await app.context.get(DataSource).transaction(async (manager) => {
    await expect(outbox.enqueue('', {})).rejects.toThrow('handler is');
    await expect(outbox.enqueue('x'.repeat(256), {})).rejects.toThrow('256 bytes');
    await expect(outbox.enqueue('save', undefined)).rejects.toThrow('payload is undefined');
    await expect(outbox.enqueue('save', {}, { priority: 1 } as object)).rejects.toThrow(
      'the option priority',
    );
    await expect(outbox.enqueue('save', {}, { headers: { at: new Date() } })).rejects.toThrow('headers.at');
    await outbox.enqueue('save', Buffer.from([0, 255]), { manager });
  });
  expect(await setup.rows()).toHaveLength(1);
  await expect(app.context.get(OutboxService).enqueue('save', {})).rejects.toThrow(TransactionRequiredError);
});
