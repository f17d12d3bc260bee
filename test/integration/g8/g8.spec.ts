import { setTimeout as sleep } from 'node:timers/promises';
import type { OutboxOptions } from '../../../lib/inbox-outbox.options';
import { type AppProcess, startAppProcess } from '../../support/app-process';
import { openTestBroker, type TestBroker } from '../../support/test-broker';
import { createTestDatabase, type TestDatabase } from '../../support/test-database';
import { waitFor } from '../../support/wait-for';
import { openOutboxTable, type OutboxTable } from '../outbox-dispatch/outbox-table';
import { startSlowConsumer } from './slow-consumer';
import { cancelNowAndThen, Traffic } from './traffic';

/** The size in full: G8_MESSAGES=20000 npm test -- g8 */
const MESSAGES = Number(process.env.G8_MESSAGES ?? 4_000);
const LEASE = 1_500;
/** Of the queue; the dispatchers have more than that in flight. */
const LENGTH = 60;
const OPTIONS: OutboxOptions = {
  lease: LEASE,
  publishTimeout: 700,
  pollInterval: 50,
  batchSize: 200,
  maxAttempts: Infinity,
  backoff: { initialDelay: 50, factor: 1, jitter: 0 },
  // Kept, so that the rows tell afterwards what has happened to them.
  retention: '1h',
};

describe('G8', () => {
  let database: TestDatabase;
  let broker: TestBroker;
  let table: OutboxTable;
  let queue: string;
  const processes: AppProcess[] = [];

  beforeAll(async () => {
    database = await createTestDatabase({ prefix: 'g8' });
    broker = await openTestBroker();
    table = await openOutboxTable(database.url, 12);
    await table.createTables();
    queue = await broker.assertQueue('all', {
      arguments: { 'x-max-length': LENGTH, 'x-overflow': 'reject-publish' },
    });
  });
  afterAll(async () => {
    await Promise.all(processes.map((each) => each.close()));
    await table?.close();
    await broker?.close();
    await database?.close();
  });

  it(
    'G8: first deliveries of each key are in the order of the commits, whoever is refused, frozen, killed or in the way',
    async () => {
      const exchange = await broker.assertExchange('ex');
      await broker.bind(queue, exchange);
      const traffic = new Traffic(table, { exchange, late: broker.exchange('late') }, MESSAGES);
      await traffic.prepare();
      for (let n = 0; n < 4; n++) processes.push(launch());
      await Promise.all(processes.map((each) => each.waitFor('ready', undefined, { timeout: 60_000 })));

      let over = false;
      const consumer = await startSlowConsumer(broker, { queue, length: LENGTH }, () => over);
      const cancelling = cancelNowAndThen(table, () => over);
      await dispatch('competing');
      const written = (share: number) =>
        waitFor('the writers', () => traffic.written >= share * MESSAGES, { timeout: 120_000 });
      const events = [
        { at: 0.1, what: () => freeze(processes[1]!) },
        { at: 0.3, what: () => createExchange() },
        { at: 0.4, what: () => dispatch('leader') },
        { at: 0.5, what: async () => freeze(await leader()) },
        { at: 0.7, what: async () => (await leader()).kill() },
      ].map(({ at, what }) => ({ at, done: written(at).then(async () => void (await what())) }));
      // Everything happens in the midst of traffic: nobody writes on before the last but one event is over.
      const barriers = events.map(({ at, done }) => ({ upTo: (at + 0.2) * MESSAGES, until: done }));
      await Promise.all([traffic.run(barriers), ...events.map(({ done }) => done)]);
      await waitFor('everything to be sent', async () => (await open()) === 0, { timeout: 120_000 });
      over = true;
      const cancelled = await cancelling;
      await consumer.end();
      await broker.drained(queue, { timeout: 60_000 });

      const committed = await traffic.committed();
      const position = new Map([...consumer.firsts].map((id, index) => [id, index]));
      const isExpected = (id: string) => !cancelled.has(id);
      const expected = [...committed.values()].flat().filter(isExpected);
      expect(expected.filter((id) => !position.has(id))).toEqual([]);
      // A message with an unknown outcome may have arrived before somebody cancelled it.
      const all = new Set([...committed.values()].flat());
      expect([...consumer.firsts].filter((id) => !all.has(id))).toEqual([]);
      const overtaken = [...committed].flatMap(([key, ids]) => {
        const places = ids.filter(isExpected).map((id) => position.get(id)!);
        return key === '' ? [] : places.filter((place, index) => index > 0 && place < places[index - 1]!);
      });
      expect(overtaken).toEqual([]);

      // It was as wild as it was meant to be.
      expect(committed.size).toBe(101);
      expect(cancelled.size).toBeGreaterThan(0);
      expect(await refused('nacked')).toBeGreaterThan(5);
      expect(await refused('no exchange')).toBeGreaterThan(0);
    },
    5 * 60_000,
  );

  function launch(): AppProcess {
    return startAppProcess('test/integration/g8/fixtures/chaos-dispatcher.ts', {
      env: { DATABASE: database.url, BROKER: broker.url },
    });
  }

  async function dispatch(mode: 'competing' | 'leader'): Promise<void> {
    await Promise.all(processes.map((each) => each.request('dispatch', { ...OPTIONS, dispatch: mode })));
  }

  /** With a claim in its hands, and for longer than its lease. */
  async function freeze(app: AppProcess): Promise<void> {
    await app.request('arm', { point: 'after-claim', signal: 'SIGSTOP' });
    await app.waitFor('point');
    await sleep(LEASE + 500);
    app.cont();
  }

  async function createExchange(): Promise<void> {
    await broker.bind(queue, await broker.assertExchange('late'));
  }

  async function leader(): Promise<AppProcess> {
    return waitFor('a leader', async () => {
      const [row] = await database.query<{ locked_by: string }>(
        `SELECT locked_by FROM shedlock
         WHERE name = 'outbox-dispatcher' AND lock_until > clock_timestamp() AT TIME ZONE 'UTC'`,
      );
      return processes.find(({ pid }) => row?.locked_by.includes(` ${pid} `));
    });
  }

  async function open(): Promise<number> {
    const [row] = await database.query<{ n: number }>(
      "SELECT count(*)::int AS n FROM outbox_message WHERE status IN ('ready', 'scheduled')",
    );
    return row!.n;
  }

  /** Messages with a key that the broker has refused, and that were sent later. */
  async function refused(why: string): Promise<number> {
    const [row] = await database.query<{ n: number }>(
      `SELECT count(*)::int AS n FROM outbox_message
       WHERE ordering_key IS NOT NULL AND status = 'sent' AND last_error LIKE '%' || $1 || '%'`,
      [why],
    );
    return row!.n;
  }
});
