import { AsyncLocalStorage } from 'node:async_hooks';
import { SchedulerRegistry } from '@nestjs/schedule';
import type { DataSource } from 'typeorm';
import { type OutboxOptions } from '../../../lib/inbox-outbox.options';
import { resolveOptions } from '../../../lib/resolved-options';
import { OutboxDispatcher } from '../../../lib/outbox/outbox-dispatcher';
import { FakeDatabase, FakeTransport } from './fake-ports';

// The ports need no connection; everything else is as in production.
jest.mock('../../../lib/transaction/own-work', () =>
  jest.requireActual<object>('./own-work-without-database'),
);

describe('OutboxDispatcher', () => {
  let database: FakeDatabase;
  let transport: FakeTransport;
  let scheduler: SchedulerRegistry;
  let lines: string[];
  const dispatchers: OutboxDispatcher[] = [];

  beforeEach(() => {
    jest.useFakeTimers();
    database = new FakeDatabase();
    transport = new FakeTransport();
    scheduler = new SchedulerRegistry();
    lines = [];
  });
  afterEach(async () => {
    const stops = dispatchers.splice(0).map((each) => each.stop({ timeout: 10 }));
    await jest.advanceTimersByTimeAsync(10_000);
    await Promise.all(stops);
    jest.useRealTimers();
  });

  function create(options: OutboxOptions = {}, name?: string): OutboxDispatcher {
    const say = (level: string) => (message: unknown) => void lines.push(`${level} ${String(message)}`);
    const dispatcher = new OutboxDispatcher({
      dataSource: {} as DataSource,
      dialect: database.dialect,
      transport,
      options: resolveOptions({ outbox: { backoff: { initialDelay: 60_000, jitter: 0 }, ...options } })
        .outbox,
      scheduler,
      logger: { log: say('log'), warn: say('warn'), error: say('error') },
      name,
    });
    dispatchers.push(dispatcher);
    return dispatcher;
  }
  const counts = (name: string) => database.calls.filter((call) => call === name).length;
  const turn = () => jest.advanceTimersByTimeAsync(1);

  it('registers its interval by name, with the data source’s name where there is one, and takes it away at the stop', async () => {
    const first = create();
    const second = create({}, 'billing');
    first.start();
    first.start();
    second.start();
    expect(scheduler.getIntervals()).toEqual(['outbox-dispatcher', 'outbox-dispatcher:billing']);
    expect(() => create().start()).toThrow(/already/i);
    await Promise.all([first.stop(), second.stop()]);
    expect(scheduler.getIntervals()).toEqual([]);
  });

  it('looks at once after the start, then with each poll, and with each wake-up', async () => {
    const dispatcher = create({ pollInterval: 1_000 });
    dispatcher.start();
    await turn();
    expect(counts('anythingDue')).toBe(1);
    await jest.advanceTimersByTimeAsync(3_000);
    expect(counts('anythingDue')).toBe(4);
    database.add({});
    dispatcher.notify();
    await turn();
    expect(transport.sent).toEqual(['id-1']);
  });

  it('a thousand wake-ups at once make one pass', async () => {
    const dispatcher = create();
    dispatcher.start();
    await turn();
    const before = counts('anythingDue');
    for (let n = 0; n < 1_000; n++) dispatcher.notify();
    await turn();
    expect(counts('anythingDue') - before).toBeLessThanOrEqual(2);
  });

  it('a message that is committed while a pass is about to end is not left to the next poll', async () => {
    const dispatcher = create({ pollInterval: '10m' });
    const { anythingDue } = database.outbox;
    database.outbox.anythingDue = async (runner) => {
      const due = await anythingDue(runner);
      if (database.rows.length === 0) {
        database.add({});
        dispatcher.notify();
      }
      return due;
    };
    dispatcher.start();
    await turn();
    await turn();
    expect(transport.sent).toEqual(['id-1']);
  });

  it('a key that becomes free while a claim finds it busy is not left to the next poll', async () => {
    const { claim, settle } = database.outbox;
    let noteSettled: () => void = () => undefined;
    const settled = new Promise<void>((resolve) => (noteSettled = resolve));
    database.outbox.claim = async (...args) => {
      const claimed = await claim(...args);
      if (claimed.length === 0) await settled;
      return claimed;
    };
    database.outbox.settle = async (...args) => {
      const result = await settle(...args);
      setTimeout(noteSettled, 5);
      return result;
    };
    database.add({ orderingKey: 'a' }, { orderingKey: 'a' });
    create({ pollInterval: '10m', batchSize: 1 }).start();
    await jest.advanceTimersByTimeAsync(100);
    expect(transport.sent).toEqual(['id-1', 'id-2']);
  });

  it('a claim that found too few free keys is not repeated before something has ended, or something new has come', async () => {
    database.add(...Array.from({ length: 40 }, (_, n) => ({ orderingKey: `key-${n % 4}` })));
    const confirms: (() => void)[] = [];
    transport.answer = () => new Promise((resolve) => confirms.push(() => resolve({ kind: 'sent' })));
    const dispatcher = create({ batchSize: 2, pollInterval: '10m' });
    dispatcher.start();
    await turn();
    // Two batches hold all keys, and the third claim found none.
    expect([transport.sent.length, counts('claim')]).toEqual([4, 3]);
    for (let round = 1; round <= 4; round++) {
      for (const confirm of confirms.splice(0, 2)) confirm();
      await turn();
      expect([transport.sent.length, counts('claim')]).toEqual([4 + 2 * round, 3 + round]);
    }
    database.add({});
    dispatcher.notify();
    await turn();
    expect(transport.sent.at(-1)).toBe('id-41');
    const done = setInterval(() => confirms.splice(0).forEach((confirm) => confirm()), 1);
    await jest.advanceTimersByTimeAsync(200);
    clearInterval(done);
    expect(new Set(transport.sent).size).toBe(41);
  });

  it('idle, it asks only whether anything is due', async () => {
    create({ pollInterval: 1_000, lease: '1h' }).start();
    await jest.advanceTimersByTimeAsync(60_000);
    expect(new Set(database.calls)).toEqual(new Set(['isFree', 'take', 'anythingDue']));
    expect(counts('take')).toBe(1);
  });

  it('does not ask for the lock with each commit while another process leads, but with each poll', async () => {
    database.lock = { owner: 'another', fence: 1, until: Date.now() + 10_500 };
    const dispatcher = create({ pollInterval: 1_000 });
    dispatcher.start();
    await turn();
    for (let n = 0; n < 50; n++) {
      dispatcher.notify();
      await turn();
    }
    expect(counts('isFree')).toBe(1);
    database.add({});
    await jest.advanceTimersByTimeAsync(12_000);
    expect(transport.sent).toEqual(['id-1']);
  });

  it('competing: needs no lock', async () => {
    database.lock = { owner: 'another', fence: 1, until: Date.now() + 100_000 };
    database.add({});
    create({ dispatch: 'competing' }).start();
    await turn();
    expect(transport.sent).toEqual(['id-1']);
    expect(counts('take')).toBe(0);
  });

  it('off: does nothing by itself; asked to, it sends', async () => {
    database.add({});
    const dispatcher = create({ dispatch: 'off' });
    dispatcher.start();
    dispatcher.notify();
    await jest.advanceTimersByTimeAsync(10_000);
    expect(database.calls).toEqual([]);
    expect(scheduler.getIntervals()).toEqual([]);
    expect(await dispatcher.runOnce()).toMatchObject({ sent: 1, end: 'idle' });
    expect(counts('release')).toBe(1);
  });

  it('a user who deletes the interval has stopped it: no pass, and the lock is given back', async () => {
    const dispatcher = create({ pollInterval: 1_000, lease: 3_000 });
    dispatcher.start();
    await turn();
    scheduler.deleteInterval('outbox-dispatcher');
    database.add({});
    dispatcher.notify();
    await jest.advanceTimersByTimeAsync(1_500);
    expect(transport.sent).toEqual([]);
    expect(database.lock?.until).toBeLessThanOrEqual(Date.now());
  });

  it('G4: without a broker it touches no row, lets others lead, and starts again with the connection', async () => {
    const dispatcher = create({ pollInterval: '1h' });
    dispatcher.start();
    await turn();
    transport.state = { available: false, reason: 'disconnected' };
    database.add({});
    database.calls.length = 0;
    dispatcher.notify();
    await turn();
    expect(database.calls).toEqual(['release']);
    transport.becomes({ available: true });
    await turn();
    expect(transport.sent).toEqual(['id-1']);
  });

  it('G4: unknown outcomes use up no attempt; there is a growing pause before the next try', async () => {
    database.add({}, {});
    transport.answer = () => ({ kind: 'unknown', error: 'the channel was closed' });
    create({ pollInterval: 1_000 }).start();
    await jest.advanceTimersByTimeAsync(20_000);
    // 100, 200, 400, … 5,000 ms: eight tries in twenty seconds, not twenty.
    expect(transport.sent.length / 2).toBeGreaterThanOrEqual(6);
    expect(transport.sent.length / 2).toBeLessThanOrEqual(10);
    expect(database.rows.map(({ attempts, status }) => [attempts, status])).toEqual([
      [0, 'ready'],
      [0, 'ready'],
    ]);
    transport.answer = () => ({ kind: 'sent' });
    await jest.advanceTimersByTimeAsync(5_000);
    expect(database.open).toEqual([]);
  });

  it('counts what became of each message, and writes it in one settlement', async () => {
    database.add(
      {},
      {},
      { attempts: 9 },
      { expired: true },
      {},
      {},
      { orderingKey: 'k' },
      { orderingKey: 'k' },
    );
    transport.answer = ({ messageId }) => {
      if (['id-2', 'id-3', 'id-7'].includes(messageId)) return { kind: 'failed', error: 'NO_ROUTE' };
      if (messageId === 'id-5') return { kind: 'unknown', error: 'lost' };
      return messageId === 'id-6' ? { kind: 'unsent', error: 'no channel' } : { kind: 'sent' };
    };
    expect(await create().runOnce()).toEqual({
      end: 'trouble',
      sent: 1,
      failed: 2,
      dead: 2,
      unknown: 1,
      released: 2,
    });
    expect(database.settlements).toEqual([
      {
        token: expect.any(String),
        sent: ['1'],
        failed: [
          { seq: '2', error: 'NO_ROUTE', next: 60_000 },
          { seq: '3', error: 'NO_ROUTE', next: 'dead' },
          { seq: '4', error: expect.stringContaining('Expired'), next: 'dead' },
          { seq: '7', error: 'NO_ROUTE', next: 60_000 },
        ],
        released: ['5', '6', '8'],
        postponed: [],
        keepSent: false,
      },
    ]);
  });

  it('a transport that rejects, against its contract, costs no message and no loop', async () => {
    database.add({}, {});
    transport.answer = ({ messageId }) => {
      if (messageId === 'id-1') throw new Error('a bug');
      return { kind: 'sent' };
    };
    expect(await create().runOnce()).toMatchObject({ sent: 1, unknown: 1 });
  });

  it('claims further batches while confirms come in: those that fill the window and two more, four at most', async () => {
    database.add(...Array.from({ length: 10 }, () => ({})));
    const confirms: (() => void)[] = [];
    transport.answer = () => new Promise((resolve) => confirms.push(() => resolve({ kind: 'sent' })));
    const first = create({ batchSize: 2, maxInFlight: 2 }).runOnce();
    await turn();
    expect(transport.sent).toEqual(['id-1', 'id-2']);
    expect(counts('claim')).toBe(3);
    expect(counts('settle')).toBe(0);
    while (confirms.length > 0) {
      for (const confirm of confirms.splice(0)) confirm();
      await turn();
    }
    expect(await first).toMatchObject({ sent: 10 });

    database.add(...Array.from({ length: 10 }, () => ({})));
    database.calls.length = 0;
    const second = create({ batchSize: 2 }).runOnce();
    await turn();
    expect(counts('claim')).toBe(4);
    for (const confirm of confirms.splice(0, 2)) confirm();
    await turn();
    expect(transport.sent).toHaveLength(20);
    for (const confirm of confirms) confirm();
    expect(await second).toMatchObject({ sent: 10 });
  });

  it('a wake-up during a slow batch is served beside it', async () => {
    database.add({ orderingKey: 'slow' });
    let confirm!: () => void;
    transport.answer = ({ messageId }) =>
      messageId === 'id-1'
        ? new Promise((resolve) => (confirm = () => resolve({ kind: 'sent' })))
        : { kind: 'sent' };
    const dispatcher = create({ pollInterval: '1h' });
    dispatcher.start();
    await turn();
    database.add({});
    dispatcher.notify();
    await turn();
    expect(transport.sent).toEqual(['id-1', 'id-2']);
    expect(database.rows[1]?.status).toBe('sent');
    confirm();
    await turn();
    expect(database.open).toEqual([]);
  });

  it('G9: publishes nothing after the end of the lease, when neither lock nor claim can be renewed', async () => {
    database.add(...Array.from({ length: 4 }, () => ({})));
    const confirms: (() => void)[] = [];
    transport.answer = () => new Promise((resolve) => confirms.push(() => resolve({ kind: 'sent' })));
    create({ maxInFlight: 1, lease: 3_000 }).start();
    await turn();
    database.down = true;
    await jest.advanceTimersByTimeAsync(2_800);
    confirms[0]!();
    await turn();
    expect(transport.sent).toEqual(['id-1']);
    expect(lines.some((line) => line.includes('is lost'))).toBe(true);
  });

  it('a settlement that fails is tried again until the lease ends; then the messages are sent again, with the same ids', async () => {
    database.add({}, {});
    const { settle } = database.outbox;
    database.outbox.settle = () => {
      database.calls.push('settle');
      return Promise.reject(new Error('the database is away'));
    };
    create({ lease: 3_000, pollInterval: 500 }).start();
    await jest.advanceTimersByTimeAsync(2_000);
    expect(counts('settle')).toBeGreaterThan(3);
    database.outbox.settle = settle;
    await jest.advanceTimersByTimeAsync(500);
    expect(database.open).toEqual([]);
    expect(transport.sent).toEqual(['id-1', 'id-2']);

    database.add({});
    database.outbox.settle = () => Promise.reject(new Error('the database is away'));
    await jest.advanceTimersByTimeAsync(3_000);
    database.outbox.settle = settle;
    await jest.advanceTimersByTimeAsync(4_000);
    expect(transport.sent).toEqual(['id-1', 'id-2', 'id-3', 'id-3']);
    expect(database.open).toEqual([]);
    expect(lines.filter((line) => line.startsWith('error'))).toHaveLength(1);
  });

  it('C31: an outage of the database is logged once, asked again every 300 ms, and leaves no unhandled rejection', async () => {
    const rejections: unknown[] = [];
    const listen = (reason: unknown) => void rejections.push(reason);
    process.on('unhandledRejection', listen);
    create({ pollInterval: '30s' }).start();
    await turn();
    database.down = true;
    database.add({});
    await jest.advanceTimersByTimeAsync(60_000);
    database.down = false;
    await jest.advanceTimersByTimeAsync(500);
    process.off('unhandledRejection', listen);
    expect(transport.sent).toEqual(['id-1']);
    expect(lines.filter((line) => /Dispatching/.test(line))).toEqual([
      expect.stringMatching(/^error Dispatching failed/),
      'log Dispatching works again',
    ]);
    expect(rejections).toEqual([]);
  });

  it('runOnce tells the caller what the database said', async () => {
    database.down = true;
    await expect(create().runOnce()).rejects.toThrow('the database is away');
  });

  it('runOnce waits for the pass that is running: never two at once', async () => {
    database.add({});
    let confirm!: () => void;
    transport.answer = () => new Promise((resolve) => (confirm = () => resolve({ kind: 'sent' })));
    const dispatcher = create();
    const both = [dispatcher.runOnce(), dispatcher.runOnce()];
    await turn();
    expect(counts('take')).toBe(1);
    confirm();
    expect((await Promise.all(both)).map(({ sent }) => sent)).toEqual([1, 0]);
  });

  it('works outside of whatever async context wakes it up', async () => {
    const storage = new AsyncLocalStorage<string>();
    const seen: (string | undefined)[] = [];
    const { anythingDue } = database.outbox;
    database.outbox.anythingDue = (runner) => {
      seen.push(storage.getStore());
      return anythingDue(runner);
    };
    const dispatcher = create();
    storage.run('a transaction of the user’s', () => dispatcher.start());
    await turn();
    storage.run('a transaction of the user’s', () => dispatcher.notify());
    await turn();
    await storage.run('a transaction of the user’s', () => dispatcher.runOnce());
    await jest.advanceTimersByTimeAsync(2_000);
    expect(seen.length).toBeGreaterThanOrEqual(4);
    expect(new Set(seen)).toEqual(new Set([undefined]));
  });

  it('keeps sent rows where a retention is set', async () => {
    database.add({});
    await create({ retention: '1d' }).runOnce();
    expect(database.settlements[0]?.keepSent).toBe(true);
  });
});
