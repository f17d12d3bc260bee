import { Client } from 'pg';
import { waitFor } from '../../support/wait-for';
import { InboxSetup } from '../inbox/inbox-setup';

const inbox = { backoff: { initialDelay: 300, factor: 1 }, pollInterval: 50 } as const;

describe('orderingKey', () => {
  let setup: InboxSetup;
  beforeAll(async () => (setup = await InboxSetup.open()));
  afterEach(() => setup.stopApps());
  afterAll(() => setup.close());

  const done = (prefix: string, count: number) =>
    waitFor(`${count} done`, async () => {
      const rows = (await setup.rows()).filter(({ message_id }) => message_id.startsWith(prefix));
      return rows.filter(({ status }) => status === 'done').length === count;
    });

  /** Numbers in the order in which their effects were committed, of one key. */
  const effectsOf = async (consumer: string, from: number, to: number) =>
    (
      await setup.database.query<{ n: number }>(
        'SELECT n FROM effect WHERE consumer = $1 AND n BETWEEN $2 AND $3 ORDER BY at, id',
        [consumer, from, to],
      )
    ).map(({ n }) => n);

  it.each(['inline', 'deferred'] as const)(
    '%s: a failing message holds back its own key only, in the order of storing',
    async (processing) => {
      const queue = setup.broker.queue(processing);
      const idempotent = { processing, onFailure: 'retry' as const, consumer: processing };
      await setup.started('consumer-app', { queue, inbox, idempotent, variant: 'ordered' });
      for (let n = 1; n <= 6; n++) {
        const steps = n === 2 ? ['fail 2', 'effect'] : ['effect'];
        await setup.broker.sendToQueue(queue, { n, key: 'a', steps }, { messageId: `${processing}-${n}` });
      }
      for (let n = 11; n <= 13; n++) {
        await setup.broker.sendToQueue(
          queue,
          { n, key: 'b', steps: ['effect'] },
          { messageId: `${processing}-${n}` },
        );
      }
      await done(`${processing}-`, 9);
      expect(await effectsOf(processing, 1, 6)).toEqual([1, 2, 3, 4, 5, 6]);
      expect(await effectsOf(processing, 11, 13)).toEqual([11, 12, 13]);
      const rows = await setup.database.query<{ message_id: string; processed_at: Date }>(
        'SELECT message_id, processed_at FROM inbox_message WHERE consumer = $1 ORDER BY processed_at',
        [processing],
      );
      const order = rows.map(({ message_id }) => message_id);
      expect(order.indexOf(`${processing}-13`)).toBeLessThan(order.indexOf(`${processing}-2`));
    },
  );

  it('what can begin at once needs no claim; one with a key does, and what waits is not overtaken', async () => {
    const queue = setup.broker.queue('at-once');
    const idempotent = { processing: 'deferred' as const, consumer: 'at-once' };
    await setup.started('consumer-app', { queue, inbox, idempotent, variant: 'ordered' });
    const send = (n: number, key?: string) =>
      setup.broker.sendToQueue(queue, { n, key, steps: ['effect'] }, { messageId: `at-once-${n}` });
    const isOpen = async (n: number) => (await setup.status(`at-once-${n}`)) === 'open';
    const holder = new Client({ connectionString: setup.database.url });
    await holder.connect();
    try {
      // The lock that lets one claim at a time run; see postgres/advisory-locks.ts.
      const [namespace, slot] = [`${0x696f6f62} # 'inbox_message'::regclass::oid::int`, 1024];
      await holder.query(`SELECT pg_advisory_lock(${namespace}, ${slot})`);
      await send(1);
      await done('at-once-1', 1);
      await send(2, 'key');
      await waitFor('it to be stored', () => isOpen(2));
      await waitFor('a claim that waits', async () => {
        const waiting = await setup.database.query(
          "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory'",
        );
        return waiting.length > 0;
      });
      expect(await isOpen(2)).toBe(true);
    } finally {
      await holder.end();
    }
    await done('at-once-', 2);
    expect(await effectsOf('at-once', 1, 2)).toEqual([1, 2]);
  });

  it('two processes: one of a key at a time; a dead one lets its key go on', async () => {
    const queue = setup.broker.queue('two');
    const idempotent = { processing: 'deferred' as const, consumer: 'two', retry: { maxAttempts: 2 } };
    const settings = { queue, inbox, idempotent, variant: 'ordered' };
    const apps = await Promise.all([
      setup.started('consumer-app', settings),
      setup.started('consumer-app', settings),
    ]);
    await setup.database.query('CREATE TABLE IF NOT EXISTS busy (key text PRIMARY KEY)');
    for (let n = 0; n < 24; n++) {
      const key = `k${n % 3}`;
      // Two of one key at once would meet each other here.
      const alone = [
        `sql INSERT INTO busy VALUES ('${key}')`,
        'sql SELECT pg_sleep(0.02)',
        `sql DELETE FROM busy WHERE key = '${key}'`,
      ];
      const steps = n === 3 ? ['fail'] : ['effect', ...alone];
      await setup.broker.sendToQueue(queue, { n, key, steps }, { messageId: `two-${n}` });
    }
    await done('two-', 23);
    expect(await setup.status('two-3')).toBe('dead');
    // Two at once would have failed at the primary key.
    const rows = (await setup.rows()).filter(
      ({ consumer, status }) => consumer === 'two' && status === 'done',
    );
    expect(rows.map(({ attempts }) => attempts)).toEqual(Array<number>(23).fill(0));
    const working = apps.filter((app) => app.events('run').length > 0);
    expect(working).toHaveLength(2);
  });

  it('a key that cannot be kept: dead at once, with the reason', async () => {
    const queue = setup.broker.queue('bad');
    const idempotent = { onFailure: 'retry' as const, consumer: 'bad' };
    const app = await setup.started('consumer-app', { queue, inbox, idempotent, variant: 'ordered' });
    await setup.broker.sendToQueue(queue, { key: 'x'.repeat(256), steps: ['effect'] }, { messageId: 'bad' });
    await waitFor('it to be dead', async () => (await setup.status('bad')) === 'dead');
    expect((await setup.rows('bad'))[0]?.last_error).toContain('is longer than 255 bytes');
    expect(app.events('run')).toEqual([]);
  });
});
