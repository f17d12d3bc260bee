import { setTimeout as delay } from 'node:timers/promises';
import type { InboxOutboxModuleOptions, PublishOptions } from '../../../lib';
import type { AppProcess } from '../../support/app-process';
import { waitFor } from '../../support/wait-for';
import type { Leads } from './fixtures/replica-app';
import { databaseTime, lockRow } from './lock-row';
import { Replicas, SLACK } from './replicas';

const LEASE = 2_000;
const POLL = 100;
const TEN_MINUTES = 600_000;
/** For how long leadership is watched at least; the case itself says 60. */
const SECONDS = Number(process.env.CLOCKS_SECONDS ?? 20);

const OPTIONS: InboxOutboxModuleOptions = {
  outbox: {
    lease: LEASE,
    pollInterval: POLL,
    publishTimeout: 1_500,
    backoff: { initialDelay: 1_500, jitter: 0 },
    // Less than the clocks are wrong by.
    retention: '5m',
    cleanup: { interval: 200 },
  },
  inbox: {
    retention: '5m',
    redeliveryHorizon: '1m',
    backoff: { maxDelay: '1s' },
    cleanup: { interval: 200 },
  },
};

describe('C40: three processes, one ten minutes ahead, one ten minutes behind', () => {
  let replicas: Replicas;
  let right: AppProcess;
  let ahead: AppProcess;
  let behind: AppProcess;
  let all: AppProcess[];
  let watchedSince: number;
  beforeAll(async () => {
    replicas = await Replicas.open();
    all = await Promise.all(
      [0, TEN_MINUTES, -TEN_MINUTES].map((shift) =>
        replicas.launch('locking/fixtures/replica-app', OPTIONS, { CLOCK_SHIFT: String(shift) }),
      ),
    );
    [right, ahead, behind] = all as [AppProcess, AppProcess, AppProcess];
    watchedSince = performance.now();
  });
  afterAll(() => replicas?.close());

  /** Makes it lead: the others stand back for a moment. */
  async function letLead(leader: AppProcess): Promise<void> {
    const others = all.filter((app) => app !== leader);
    await Promise.all(others.map((app) => app.request('pause dispatching')));
    await replicas.leading(leader);
    await Promise.all(others.map((app) => app.request('dispatch')));
  }

  async function leaderNow(): Promise<AppProcess> {
    return waitFor('one to lead', async () => {
      const found = await Promise.all(all.map((app) => replicas.leads(app)));
      return all.find((_, n) => found[n]);
    });
  }

  /** When each leader led, by the database's clock, in the order of the fences. */
  function periods() {
    const found = new Map<bigint, { fence: bigint; from: number; to: number }>();
    for (const { fence, at } of all.flatMap((app) => app.events<Leads>('leads'))) {
      const key = BigInt(fence);
      const { from, to } = found.get(key) ?? { from: at, to: at };
      found.set(key, { fence: key, from: Math.min(from, at), to: Math.max(to, at) });
    }
    return [...found.values()].sort((a, b) => Number(a.fence - b.fence));
  }

  function expectNoTwoAtOnce(): void {
    const led = periods();
    for (const [n, { from }] of led.slice(1).entries()) expect(from).toBeGreaterThan(led[n]!.to);
  }

  const publish = (app: AppProcess, options: PublishOptions = {}, routingKey = 'q') =>
    app.request<string>('publish', { exchange: replicas.exchange, routingKey, ...options });

  /** Milliseconds from one column's time to another's, of a message that was sent. */
  async function between(from: string, to: string, messageId: string): Promise<number> {
    return waitFor(`${messageId} to be sent`, async () => {
      const [row] = await replicas.database.query<{ passed: number }>(
        `SELECT (extract(epoch FROM ${to} - ${from}) * 1000)::float8 AS passed FROM outbox_message
         WHERE message_id = $1 AND status = 'sent'`,
        [messageId],
      );
      return row && { passed: row.passed };
    }).then(({ passed }) => passed);
  }

  it.each(['ahead', 'behind'] as const)(
    'C40: with the one that is %s as leader a message leaves when it is due, by the database’s clock',
    async (which) => {
      const leader = { ahead, behind }[which];
      await letLead(leader);
      const atOnce = await Promise.all([ahead, behind].map((app) => publish(app)));
      const later = await Promise.all([ahead, behind].map((app) => publish(app, { delay: '5s' })));
      // Nobody has bound this key yet, so that the first attempt fails.
      const retried = await publish(ahead, {}, which);
      const [row] = await waitFor('the first attempt', () =>
        replicas.database
          .query<{ due: number }>(
            `SELECT (extract(epoch FROM available_at - clock_timestamp()) * 1000)::float8 AS due FROM outbox_message
             WHERE message_id = $1 AND attempts = 1 AND status = 'scheduled'`,
            [retried],
          )
          .then((rows) => rows.length > 0 && rows),
      );
      expect(row!.due).toBeLessThanOrEqual(1_500);
      expect(row!.due).toBeGreaterThan(1_500 - SLACK);
      await replicas.broker.bind(replicas.queue, replicas.exchange, which);

      for (const id of atOnce) expect(await between('created_at', 'settled_at', id)).toBeLessThan(SLACK);
      const retriedAfter = await between('available_at', 'settled_at', retried);
      for (const id of later) {
        const passed = await between('created_at', 'settled_at', id);
        expect(passed).toBeGreaterThanOrEqual(5_000);
        expect(passed).toBeLessThan(5_000 + SLACK);
      }
      expect(retriedAfter).toBeGreaterThanOrEqual(0);
      expect(retriedAfter).toBeLessThan(SLACK);
      await replicas.arrived([...atOnce, ...later, retried]);
    },
  );

  it('C40: cleaning deletes what is older than the retention by the database’s clock, and nothing younger', async () => {
    const { database } = replicas;
    for (const minutes of [4, 6]) {
      const then = `clock_timestamp() - interval '${minutes} minutes'`;
      await database.query(
        `INSERT INTO outbox_message (message_id, exchange, routing_key, body, status, settled_at)
           VALUES ('old ${minutes}', '', '', '', 'sent', ${then});
         INSERT INTO inbox_message (consumer, message_id, status, processed_at)
           VALUES ('c', 'old ${minutes}', 'done', ${then})`,
      );
    }
    const since = await databaseTime(database);
    // Each of them has cleaned after that, since each has had both locks.
    const cleaned = new Set<string>();
    await waitFor('each to clean', async () => {
      for (const job of ['outbox-cleaner', 'inbox-cleaner']) {
        const row = await lockRow(database, job);
        const app = all.find(({ pid }) => row && row.lockedAt > since && row.owner.includes(` ${pid} `));
        if (app) cleaned.add(`${job} ${app.pid}`);
      }
      return cleaned.size === 2 * all.length;
    });
    for (const table of ['outbox_message', 'inbox_message']) {
      await waitFor('the old one to go', async () => {
        const rows = await database.query(`SELECT message_id FROM ${table} WHERE message_id LIKE 'old %'`);
        return rows.length === 1 && expect(rows).toEqual([{ message_id: 'old 4' }]) === undefined;
      });
    }
  });

  it(
    `C40: leaders that resign, are paused, or lead on undisturbed: never two at once in ${SECONDS} s`,
    async () => {
      const ids: string[] = [];
      const disturbances = [
        async (leader: AppProcess) => {
          await leader.request('pause dispatching');
          await replicas.leading(...all.filter((app) => app !== leader));
          await leader.request('dispatch');
        },
        async (leader: AppProcess) => {
          leader.stop();
          await replicas.leading(...all.filter((app) => app !== leader));
          leader.cont();
        },
        async (leader: AppProcess) => {
          const { fence } = await replicas.leading(leader);
          await delay(1.5 * LEASE);
          // The others look every 100 ms.
          expect(await replicas.leads(leader)).toMatchObject({ fence });
        },
      ];
      for (let n = 0; n < disturbances.length || performance.now() - watchedSince < SECONDS * 1_000; n++) {
        const leader = await leaderNow();
        ids.push(await publish(leader));
        await disturbances[n % disturbances.length]!(leader);
        expectNoTwoAtOnce();
      }
      await replicas.arrived(ids);
      expect(periods().length).toBeGreaterThan(3);
    },
    SECONDS * 1_000 + 60_000,
  );

  it('C40: when the leader ends another leads in time, whosever clock is wrong', async () => {
    const { database } = replicas;
    await letLead(ahead);
    const killed = await databaseTime(database);
    await ahead.kill();
    const { lockedAt } = await replicas.leading(behind, right);
    expect(lockedAt - killed).toBeLessThan(LEASE + POLL + SLACK);

    all = [behind, right];
    await letLead(behind);
    await behind.request('close');
    const released = (await replicas.lock())!;
    const next = await replicas.leading(right);
    // The row that was released says when, unless the next one was quicker.
    if (!released.held) expect(next.lockedAt - released.lockedUntil).toBeLessThan(POLL + SLACK);
    await replicas.arrived([await publish(right)]);
    all = [right, ahead, behind];
    expectNoTwoAtOnce();
  });
});
