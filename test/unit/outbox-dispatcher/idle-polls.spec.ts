import { SchedulerRegistry } from '@nestjs/schedule';
import type { DataSource } from 'typeorm';
import { resolveOptions } from '../../../lib/resolved-options';
import { OutboxDispatcher } from '../../../lib/outbox/outbox-dispatcher';
import { FakeDatabase, FakeTransport } from './fake-ports';

jest.mock('../../../lib/transaction/own-work', () =>
  jest.requireActual<object>('./own-work-without-database'),
);

const POLL = 1_000;
const LEASE = 10_000;

describe('Polling while nothing happens', () => {
  let database: FakeDatabase;
  let transport: FakeTransport;
  let hears: boolean;
  let dispatcher: OutboxDispatcher;
  beforeEach(async () => {
    jest.useFakeTimers();
    database = new FakeDatabase();
    transport = new FakeTransport();
    hears = true;
    const silent = () => undefined;
    dispatcher = new OutboxDispatcher({
      dataSource: {} as DataSource,
      dialect: database.dialect,
      transport,
      options: resolveOptions({ outbox: { pollInterval: POLL, lease: LEASE } }).outbox,
      scheduler: new SchedulerRegistry(),
      logger: { log: silent, warn: silent, error: silent },
      hears: () => hears,
    });
    dispatcher.start();
    await jest.advanceTimersByTimeAsync(1);
  });
  afterEach(async () => {
    const stopped = dispatcher.stop({ timeout: 10 });
    await jest.advanceTimersByTimeAsync(10_000);
    await stopped;
    jest.useRealTimers();
  });

  async function looksIn(milliseconds: number): Promise<number> {
    database.calls.length = 0;
    await jest.advanceTimersByTimeAsync(milliseconds);
    return database.calls.filter((call) => call === 'anythingDue').length;
  }
  const becomeQuiet = () => jest.advanceTimersByTimeAsync(3 * LEASE);

  it('looks with each poll for two leases, then with one poll in five', async () => {
    expect(await looksIn(2 * LEASE - 2_000)).toBe(18);
    await becomeQuiet();
    expect(await looksIn(100 * POLL)).toBe(20);
  });

  it('looks with each poll while it does not hear the other processes', async () => {
    hears = false;
    await becomeQuiet();
    expect(await looksIn(50 * POLL)).toBe(50);
    hears = true;
    await becomeQuiet();
    hears = false;
    expect(await looksIn(50 * POLL)).toBe(50);
  });

  it('a wake-up is followed at once, and by two leases of full attention', async () => {
    await becomeQuiet();
    database.add({});
    dispatcher.notify();
    await jest.advanceTimersByTimeAsync(1);
    expect(transport.sent).toEqual(['id-1']);
    expect(await looksIn(2 * LEASE - 2_000)).toBe(18);
  });

  it.each([100, 1_300, 2_500, 3_999, 4_900])(
    'a message planned in %i ms leaves within one interval of its date',
    async (planned) => {
      await becomeQuiet();
      // Planned long ago, and not told again: nothing but the look knows of it.
      database.add({});
      Object.assign(database.rows[0]!, { status: 'scheduled', due: Date.now() + 20_000 + planned });
      await jest.advanceTimersByTimeAsync(20_000 + planned - 1);
      expect(transport.sent).toEqual([]);
      await jest.advanceTimersByTimeAsync(POLL + 2);
      expect(transport.sent).toEqual(['id-1']);
    },
  );

  it('a message that nobody told of leaves within five intervals', async () => {
    await becomeQuiet();
    database.add({});
    await jest.advanceTimersByTimeAsync(5 * POLL + 1);
    expect(transport.sent).toEqual(['id-1']);
  });
});

describe('A follower', () => {
  it('never leaves out a poll: the lock may become free', async () => {
    jest.useFakeTimers();
    const database = new FakeDatabase();
    database.lock = { owner: 'another', fence: 1, until: Date.now() + 10_000_000 };
    const silent = () => undefined;
    const dispatcher = new OutboxDispatcher({
      dataSource: {} as DataSource,
      dialect: database.dialect,
      transport: new FakeTransport(),
      options: resolveOptions({ outbox: { pollInterval: POLL, lease: LEASE } }).outbox,
      scheduler: new SchedulerRegistry(),
      logger: { log: silent, warn: silent, error: silent },
      hears: () => true,
    });
    dispatcher.start();
    await jest.advanceTimersByTimeAsync(100 * POLL);
    expect(database.calls.filter((call) => call === 'isFree').length).toBeGreaterThanOrEqual(100);
    await dispatcher.stop({ timeout: 10 });
    jest.useRealTimers();
  });
});
