import { setTimeout as delay } from 'node:timers/promises';
import { Client } from 'pg';
import type { OutboxOptions } from '../../../lib/inbox-outbox.options';
import { type AppProcess, startAppProcess } from '../../support/app-process';
import type { Collector } from '../../support/message-collector';
import { openTestBroker, type TestBroker } from '../../support/test-broker';
import { createTestDatabase, type TestDatabase } from '../../support/test-database';
import { waitFor } from '../../support/wait-for';
import { openOutboxTable } from '../outbox-dispatch/outbox-table';

/** Nothing is found by polling in the time of a test. */
const POLL = '10m';
const CHANNEL = 'inbox_outbox:public.outbox_message';

describe('Wake-ups between processes', () => {
  let database: TestDatabase;
  let broker: TestBroker;
  let exchange: string;
  let collector: Collector;
  /** Hears what the applications tell each other. */
  let listener: Client;
  let heard = 0;
  const processes: AppProcess[] = [];

  beforeAll(async () => {
    database = await createTestDatabase({ prefix: 'wakeup' });
    broker = await openTestBroker();
    const table = await openOutboxTable(database.url, 2);
    await table.createTables();
    await table.close();
    exchange = await broker.assertExchange('ex');
    const queue = await broker.assertQueue('q');
    await broker.bind(queue, exchange, 'q');
    collector = await broker.collect(queue);
    listener = new Client(database.url);
    listener.on('error', () => undefined);
    await listener.connect();
    listener.on('notification', () => void heard++);
    await listener.query(`LISTEN "${CHANNEL}"`);
  });
  beforeEach(() => {
    heard = 0;
    collector.messages.length = 0;
  });
  afterAll(async () => {
    await closeAll();
    await listener?.end();
    await broker?.close();
    await database?.close();
  });

  async function closeAll(): Promise<void> {
    await Promise.all(processes.splice(0).map((each) => each.close()));
    await database?.query('TRUNCATE outbox_message; TRUNCATE shedlock');
  }

  async function launch(options: OutboxOptions): Promise<AppProcess> {
    const app = startAppProcess('test/integration/wake-up/fixtures/wake-up-app.ts', {
      env: {
        DATABASE: database.url,
        BROKER: options.dispatch === 'off' ? undefined : broker.url,
        EXCHANGE: exchange,
        OPTIONS: JSON.stringify({ pollInterval: POLL, ...options }),
      },
    });
    processes.push(app);
    await app.waitFor('ready', undefined, { timeout: 60_000 });
    return app;
  }
  /** Connections of the module's own, by what they did last. */
  const connections = () =>
    database.query<{ pid: number; query: string }>(
      `SELECT pid, query FROM pg_stat_activity
       WHERE datname = current_database() AND application_name = 'inbox-outbox signals'`,
    );
  /** A listener's last word is the signal to itself. */
  const listens = (count: number) =>
    waitFor(`${count} listeners`, async () => {
      const last = (await connections()).map(({ query }) => query);
      return last.filter((query) => /pg_notify\('inbox_outbox:[0-9a-f]{8}-/.test(query)).length === count;
    });
  const arrived = (...ids: string[]) =>
    waitFor(`${ids.join(', ')} to arrive`, () => ids.every((id) => collector.messageIds.includes(id)));

  describe('from one that only writes to one that sends', () => {
    let writer: AppProcess;
    let sender: AppProcess;
    beforeAll(async () => {
      [writer, sender] = await Promise.all([launch({ dispatch: 'off' }), launch({ dispatch: 'leader' })]);
      await listens(1);
    });
    afterAll(closeAll);

    it('a message leaves at once', async () => {
      await writer.request('publish', { ids: ['a', 'b'] });
      await arrived('a', 'b');
      await waitFor('the outbox to be empty', async () => {
        return (await database.query('SELECT 1 FROM outbox_message')).length === 0;
      });
      expect(await sender.request('log')).not.toContainEqual(expect.stringMatching(/Wake-ups/));
    });

    it('G1: nothing is told of what was rolled back, and little of a hundred commits', async () => {
      await writer.request('publish', { ids: ['a'], fate: 'rolled back' });
      // Longer than signals are held back to be one.
      await delay(100);
      expect(heard).toBe(0);
      await writer.request('publish', { ids: ['b'] });
      await waitFor('the signal of the commit', () => heard > 0);
      const started = performance.now();
      await writer.request('commit many', 100, { timeout: 50_000 });
      const elapsed = performance.now() - started;
      await waitFor('the last signal', () => heard > 1);
      await listener.query('SELECT 1');
      expect(heard).toBeLessThanOrEqual(elapsed / 20 + 3);
    });

    it('a connection that is killed comes back, tells it once, and misses nothing', async () => {
      for (const round of ['b', 'c']) {
        const before = await connections();
        expect(before).toHaveLength(2);
        // First the listener's alone, then both.
        for (const { pid, query } of before) {
          if (round === 'c' || query.includes('-'))
            await database.query('SELECT pg_terminate_backend($1)', [pid]);
        }
        // Told while nobody listens, or by a connection that is gone.
        await writer.request('publish', { ids: [round] });
        await arrived(round);
        await listens(1);
        await writer.request('publish', { ids: [`${round}2`] });
        await arrived(`${round}2`);
      }
      const lines = (await sender.request<string[]>('log')).filter((line) => line.includes('Wake-ups'));
      expect(lines).toHaveLength(4);
      expect(lines[0]).toMatch(/terminat/);
      expect(lines[1]).toMatch(/work again/);
    });

    it('C38: the connections are closed at shutdown, and nothing keeps the processes alive', async () => {
      expect(await connections()).toHaveLength(2);
      await Promise.all([writer, sender].map((each) => each.request('close')));
      expect(await Promise.all([writer.exited, sender.exited])).toEqual([
        { code: 0, signal: null },
        { code: 0, signal: null },
      ]);
      expect(await connections()).toEqual([]);
    });
  });

  it('the leader is woken by a follower, and a follower that is told does nothing', async () => {
    const leader = await launch({ dispatch: 'leader' });
    await listens(1);
    const follower = await launch({ dispatch: 'leader' });
    await listens(2);
    await follower.request('publish', { ids: ['a'] });
    await arrived('a');
    await leader.request('publish', { ids: ['b'] });
    await arrived('b');
    expect(await database.query("SELECT fence::text FROM shedlock WHERE name = 'outbox-dispatcher'")).toEqual(
      [{ fence: '1' }],
    );
    expect(collector.messages).toHaveLength(2);
    await closeAll();
  });

  it('competing: whoever hears it sends it', async () => {
    const [writer] = await Promise.all([
      launch({ dispatch: 'off' }),
      launch({ dispatch: 'competing' }),
      launch({ dispatch: 'competing' }),
    ]);
    await listens(2);
    await writer.request('publish', { ids: ['a', 'b'] });
    await arrived('a', 'b');
    await closeAll();
  });

  it("with 'poll' there is no connection, and no signal", async () => {
    const app = await launch({ dispatch: 'leader', wakeUp: 'poll' });
    await app.request('publish', { ids: ['a'] });
    await arrived('a');
    expect(await connections()).toEqual([]);
    expect(heard).toBe(0);
    await closeAll();
  });
});
