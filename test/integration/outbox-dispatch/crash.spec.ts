import { setTimeout as delay } from 'node:timers/promises';
import type { OutboxOptions } from '../../../lib/inbox-outbox.options';
import { type AppProcess, startAppProcess } from '../../support/app-process';
import type { Collector } from '../../support/message-collector';
import { openTestBroker, type TestBroker } from '../../support/test-broker';
import { createTestDatabase, type TestDatabase } from '../../support/test-database';
import { waitFor } from '../../support/wait-for';
import { openOutboxTable, type OutboxTable } from './outbox-table';

const LEASE = 2_000;
const INTERVAL = 100;
/** For what is not the module's: scheduling, the servers, two cores. */
const SLACK = 2_500;

interface LockRow extends Record<string, unknown> {
  locked_by: string;
  fence: string;
  held: boolean;
}

describe('A dispatcher that dies or sleeps', () => {
  let database: TestDatabase;
  let broker: TestBroker;
  let table: OutboxTable;
  let exchange: string;
  let queue: string;
  let collector: Collector;
  const processes: AppProcess[] = [];

  beforeEach(async () => {
    database = await createTestDatabase({ prefix: 'crash' });
    broker = await openTestBroker();
    table = await openOutboxTable(database.url, 2);
    await table.createTables();
    exchange = await broker.assertExchange('ex');
    queue = await broker.assertQueue('q');
    await broker.bind(queue, exchange, 'q');
    collector = await broker.collect(queue);
  });
  afterEach(async () => {
    await Promise.all(processes.splice(0).map((each) => each.close()));
    await table.close();
    await broker.close();
    await database.close();
  });

  /** Ready to start: loading an application takes longer than all that is to be seen here. */
  async function launch(armed: string[] = [], options: OutboxOptions = {}): Promise<AppProcess> {
    const app = startAppProcess('test/integration/outbox-dispatch/fixtures/dispatcher-process.ts', {
      env: {
        DATABASE: database.url,
        BROKER: broker.url,
        OPTIONS: JSON.stringify({ lease: LEASE, pollInterval: INTERVAL, publishTimeout: 1_000, ...options }),
      },
      armed,
    });
    processes.push(app);
    await app.waitFor('ready');
    return app;
  }

  const publish = (count: number) =>
    table.publish(
      ...Array.from({ length: count }, (_, n) => ({ exchange, routingKey: 'q', body: String(n) })),
    );
  const open = () => database.query('SELECT * FROM outbox_message');
  const lock = async (): Promise<LockRow | undefined> => {
    const [row] = await database.query<LockRow>(
      `SELECT locked_by, fence::text, lock_until > clock_timestamp() AT TIME ZONE 'UTC' AS held FROM shedlock
       WHERE name = 'outbox-dispatcher'`,
    );
    return row;
  };

  describe.each(['after-claim', 'before-publish', 'after-3-confirms', 'before-settle'])(
    'killed %s',
    (point) => {
      it.each(['another replica takes over', 'it is restarted at once'])(
        'G2, C37: every message arrives, with its own id, and none uses up an attempt: %s',
        async (how) => {
          const [first, second] = await Promise.all([launch([point]), launch()]);
          await lead(first);
          const replica = how.startsWith('another');
          if (replica) await second.request('start');
          const ids = await publish(10);
          expect(await first.exited).toEqual({ code: null, signal: 'SIGKILL' });
          const killed = performance.now();
          if (!replica) await second.request('start');
          await collectorHasAll(ids);
          await waitFor('the outbox to be empty', async () => (await open()).length === 0);
          expect(performance.now() - killed).toBeLessThan(LEASE + 2 * INTERVAL + SLACK);
          expect(new Set(collector.messageIds)).toEqual(new Set(ids));
          expect(collector.messages.length).toBeLessThanOrEqual(20);
          const outcomes = [...processes].flatMap((each) => each.events<{ failed: unknown[] }>('settled'));
          expect(outcomes.flatMap((settled) => settled.failed)).toEqual([]);
        },
      );
    },
  );

  it('C41: a leader that was paused beyond its lease sends nothing more, settles nothing and takes no lock away', async () => {
    const [a, b, c] = await Promise.all([launch([], { maxInFlight: 1 }), launch(), launch()]);
    await a.request('arm', { point: 'after-3-confirms', signal: 'SIGSTOP' });
    await lead(a);
    await Promise.all([b.request('start'), c.request('start')]);
    const fenceOfA = BigInt((await lock())!.fence);
    const ids = await publish(10);
    await a.waitFor('point');
    const paused = performance.now();
    await waitFor('the others to finish', async () => (await open()).length === 0, {
      timeout: LEASE + 4_000,
    });
    await collectorHasAll(ids);
    const lockOfOthers = await lock();
    const before = collector.messages.length;
    // As long as the case asks for: three leases.
    await delay(Math.max(0, 3 * LEASE - (performance.now() - paused)));

    a.cont();
    await waitFor('A to see that it leads no more', async () =>
      (await a.request<string[]>('log')).some((line) => line.includes('is lost')),
    );
    const more = await publish(3);
    await collectorHasAll(more);
    await waitFor('the outbox to be empty', async () => (await open()).length === 0);
    expect(collector.messages.length).toBeLessThanOrEqual(before + 1 + 3);
    const sentByA = a.events<{ kind: string }>('outcome').filter(({ kind }) => kind === 'sent');
    expect(sentByA).toHaveLength(3);
    for (const { settled } of a.events<{ settled: number }>('settled')) expect(settled).toBe(0);
    // Whoever took over still leads, with the same fence: neither A nor C came in between.
    const now = (await lock())!;
    expect(now).toMatchObject({ held: true, locked_by: lockOfOthers?.locked_by, fence: lockOfOthers?.fence });
    expect(BigInt(now.fence)).toBeGreaterThan(fenceOfA);
    expect([b.pid, c.pid]).toContain(Number(now.locked_by.split(' ')[1]));
  });

  it('C38: after a stop another process leads at its next poll', async () => {
    const [a, b] = await Promise.all([launch(), launch()]);
    await lead(a);
    await b.request('start');
    await a.request('stop');
    const ids = await publish(3);
    const stopped = performance.now();
    await collectorHasAll(ids);
    expect(performance.now() - stopped).toBeLessThan(1_000 + SLACK);
    expect((await lock())?.locked_by).toContain(` ${b.pid} `);
  });

  async function lead(app: AppProcess): Promise<void> {
    await app.request('start');
    await waitFor('it to lead', async () => (await lock())?.locked_by.includes(` ${app.pid} `));
  }

  async function collectorHasAll(ids: readonly string[]): Promise<void> {
    await waitFor('every id to arrive', () => ids.every((id) => collector.messageIds.includes(id)));
  }
});
