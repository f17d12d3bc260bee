import { setTimeout as delay } from 'node:timers/promises';
import type { OutboxOptions } from '../../../lib/inbox-outbox.options';
import { type AppProcess, startAppProcess } from '../../support/app-process';
import type { Collector } from '../../support/message-collector';
import { openTestBroker, type TestBroker } from '../../support/test-broker';
import { createTestDatabase, type TestDatabase } from '../../support/test-database';
import { waitFor } from '../../support/wait-for';
import { openOutboxTable, type OutboxTable } from '../outbox-dispatch/outbox-table';

const LEASE = 2_000;
const POLL = 100;
/** For what is not the module's: scheduling, the servers, two cores. */
const SLACK = 2_500;
const TEN_MINUTES = 600_000;

describe('Leadership of processes', () => {
  let database: TestDatabase;
  let broker: TestBroker;
  let table: OutboxTable;
  let exchange: string;
  let collector: Collector;
  const processes: AppProcess[] = [];

  beforeEach(async () => {
    database = await createTestDatabase({ prefix: 'leadership' });
    broker = await openTestBroker();
    table = await openOutboxTable(database.url, 2);
    await table.createTables();
    exchange = await broker.assertExchange('ex');
    const queue = await broker.assertQueue('q');
    await broker.bind(queue, exchange, 'q');
    collector = await broker.collect(queue);
  });
  afterEach(async () => {
    await Promise.all(processes.splice(0).map((each) => each.close()));
    await table.close();
    await broker.close();
    await database.close();
  });

  async function launch(clock = 0, options: OutboxOptions = {}): Promise<AppProcess> {
    const app = startAppProcess('test/integration/locking/fixtures/skewed-dispatcher.ts', {
      env: {
        DATABASE: database.url,
        BROKER: broker.url,
        CLOCK_SHIFT: String(clock),
        OPTIONS: JSON.stringify({ lease: LEASE, pollInterval: POLL, publishTimeout: 1_000, ...options }),
      },
    });
    processes.push(app);
    await app.waitFor('ready', undefined, { timeout: 60_000 });
    return app;
  }

  const publish = (count: number) =>
    table.publish(
      ...Array.from({ length: count }, (_, n) => ({ exchange, routingKey: 'q', body: String(n) })),
    );
  const lock = async () => {
    const [row] = await database.query<{ locked_by: string; fence: string; held: boolean }>(
      `SELECT locked_by, fence::text, lock_until > clock_timestamp() AT TIME ZONE 'UTC' AS held FROM shedlock
       WHERE name = 'outbox-dispatcher'`,
    );
    return row;
  };
  const leads = (app: AppProcess) => async () => {
    const row = await lock();
    return row?.held && row.locked_by.includes(` ${app.pid} `);
  };
  const arrived = (ids: readonly string[]) =>
    waitFor('every id to arrive', () => ids.every((id) => collector.messageIds.includes(id)));
  const empty = () =>
    waitFor('the outbox to be empty', async () => {
      return (await database.query('SELECT 1 FROM outbox_message')).length === 0;
    });

  it('G9: a leader that was paused beyond its lease publishes and settles nothing more, and releases nobody else’s lock', async () => {
    const [a, b] = await Promise.all([launch(0, { maxInFlight: 1 }), launch()]);
    await a.request('arm', { point: 'after-3-confirms', signal: 'SIGSTOP' });
    await a.request('start');
    await waitFor('A to lead', leads(a));
    await b.request('start');
    const ids = await publish(10);
    await a.waitFor('point');
    await waitFor('B to lead', leads(b));
    await arrived(ids);
    await empty();
    const ofB = (await lock())!;
    const before = collector.messages.length;

    a.cont();
    // Its stop ends the batch and gives back what it still takes for its own.
    await a.request('stop');
    expect(a.events<{ kind: string }>('outcome').filter(({ kind }) => kind === 'sent')).toHaveLength(3);
    for (const { settled } of a.events<{ settled: number }>('settled')) expect(settled).toBe(0);
    expect(collector.messages.length).toBe(before);
    expect(await lock()).toMatchObject({ held: true, locked_by: ofB.locked_by, fence: ofB.fence });
    await arrived(await publish(2));
  });

  it('C40: clocks that are ten minutes wrong make no second leader, and no wait beyond lease and poll', async () => {
    const [right, ahead, behind] = await Promise.all([launch(), launch(TEN_MINUTES), launch(-TEN_MINUTES)]);
    await ahead.request('start');
    await waitFor('the one that is ahead to lead', leads(ahead));
    await Promise.all([right.request('start'), behind.request('start')]);
    const first = (await lock())!;
    for (const leader of [ahead, behind]) {
      // Whoever leads, it leads for more than a lease: the others look every 100 ms.
      const ofLeader = (await lock())!;
      await delay(LEASE * 1.5);
      expect(await lock()).toMatchObject({ held: true, locked_by: ofLeader.locked_by });
      await arrived(await publish(2));
      // What has arrived and is not settled yet would be sent again, rightly.
      await empty();
      if (leader === behind) break;
      const killed = performance.now();
      await leader.kill();
      await waitFor('another to lead', async () => {
        const row = await lock();
        return row?.held && row.fence !== first.fence;
      });
      expect(performance.now() - killed).toBeLessThan(LEASE + POLL + SLACK);
    }
    expect(BigInt((await lock())!.fence)).toBe(BigInt(first.fence) + 1n);
    expect(collector.messages).toHaveLength(4);
  });

  it('competing: every instance sends, each message once, without a leader', async () => {
    const both = await Promise.all([0, 1].map(() => launch(0, { dispatch: 'competing', batchSize: 5 })));
    const ids = await publish(200);
    await Promise.all(both.map((each) => each.request('start')));
    await arrived(ids);
    await empty();
    expect(collector.messages.length).toBe(200);
    expect(await lock()).toBeUndefined();
  });

  it('off: writes only; nothing is sent and no lock is taken', async () => {
    const [off, leader] = await Promise.all([launch(0, { dispatch: 'off' }), launch()]);
    await off.request('start');
    const ids = await publish(3);
    await delay(3 * POLL);
    expect(collector.messages).toHaveLength(0);
    expect(await lock()).toBeUndefined();
    await leader.request('start');
    await arrived(ids);
    expect(off.events('outcome')).toEqual([]);
  });
});
