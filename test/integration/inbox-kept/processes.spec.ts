import type { AppProcess } from '../../support/app-process';
import { waitFor } from '../../support/wait-for';
import { InboxSetup } from '../inbox/inbox-setup';

const MESSAGES = 80;
const PROCESSES = 4;
const KILLS = 4;

describe('four processes on one queue, killed while they work', () => {
  let setup: InboxSetup;
  beforeAll(async () => (setup = await InboxSetup.open()));
  afterEach(() => setup.stopApps());
  afterAll(() => setup.close());

  it.each([
    ['inline', { processing: 'inline' as const, onFailure: 'retry' as const }],
    ['deferred', { processing: 'deferred' as const }],
  ])(
    'G5, G6, G7, G10, G11: four at once under SIGKILL: every message takes effect exactly once, none is lost, none cleaned (%s)',
    async (name, options) => {
      const queue = setup.broker.queue(name);
      const settings = {
        queue,
        inbox: {
          backoff: { initialDelay: 100, factor: 1 },
          pollInterval: 100,
          lease: 1_000,
          maxAttempts: 50,
          cleanup: { interval: 100 },
        },
        idempotent: { ...options, consumer: name },
      };
      // For the cleaners, which run in all processes while they are killed. Of a consumer that nobody here is.
      await setup.database.query(
        `INSERT INTO inbox_message (consumer, message_id, status, received_at, processed_at, available_at, body)
         SELECT 'away ' || $1, status || ' ' || n, status, now() - interval '40 days',
           CASE WHEN status IN ('done', 'dead') THEN now() - interval '8 days' END, now() + interval '1 hour', '{}'
         FROM unnest(ARRAY['seen', 'open', 'done', 'dead']) AS status, generate_series(1, 20) AS n`,
        [name],
      );
      const start = () => setup.start('consumer-app', settings);
      const all: AppProcess[] = [];
      const victims = new Set<AppProcess>();
      const add = () => {
        const app = start();
        all.push(app);
        return app;
      };
      let running = Array.from({ length: PROCESSES }, add);
      await Promise.all(running.map((app) => app.waitFor('ready')));
      for (let n = 0; n < MESSAGES; n++) {
        const steps = ['effect', 'sql SELECT pg_sleep(0.05)', ...(n % 5 === 0 ? ['fail 1'] : [])];
        for (let copy = 0; copy < 2; copy++) {
          await setup.broker.sendToQueue(queue, { n, steps }, { messageId: `${name}-${n}` });
        }
      }
      // Each in the middle of its work, and while others go on; each is replaced at once.
      for (let kill = 0; kill < KILLS; kill++) {
        const victim = running[0] as AppProcess;
        await waitFor('it to be at work', () => victim.events('run').length > 0, { timeout: 20_000 }).catch(
          () => undefined,
        );
        victims.add(victim);
        await victim.kill();
        running = [...running.slice(1), add()];
      }
      const rows = async () => (await setup.rows()).filter(({ consumer }) => consumer === name);
      await waitFor(
        'all of them to be done',
        async () => {
          const found = await rows();
          return found.length === MESSAGES && found.every(({ status }) => status === 'done');
        },
        { timeout: 50_000 },
      );
      // G5, G7: each effect once, although each message came twice at least, and copies met runs that were under way.
      const effects = Object.entries(await setup.effects()).filter(([key]) => key.startsWith(`${name} `));
      expect(effects).toHaveLength(MESSAGES);
      expect(effects.filter(([, count]) => count !== 1)).toEqual([]);
      // G6: the broker got an ack for each, none for what was not committed, and nobody died of it but those who were killed.
      await setup.broker.drained(queue);
      expect((await rows()).every(({ status }) => status === 'done')).toBe(true);
      for (const app of all) if (!victims.has(app)) await app.request('noop');
      // G11: nothing went anywhere else.
      expect(await setup.broker.drain(setup.deadLetters)).toEqual([]);
      // G10: what was done long ago is gone, and nothing else.
      await waitFor('the cleaners', async () => (await away()).every(({ status }) => status !== 'done'));
      const left = (await away()).map(({ status }) => status).sort();
      expect(left).toEqual(['dead', 'open', 'seen'].flatMap((status) => Array<string>(20).fill(status)));

      async function away() {
        return (await setup.rows()).filter(({ consumer }) => consumer === `away ${name}`);
      }
    },
    100_000,
  );

  it('a kept message that kills its process is dead with its body, and its neighbours are not', async () => {
    const queue = setup.broker.queue('poison');
    const settings = {
      queue,
      inbox: { backoff: { initialDelay: 100 }, pollInterval: 100, lease: 500, maxAttempts: 3 },
      idempotent: { processing: 'deferred' as const, consumer: 'poison' },
    };
    // Stored by nobody who would handle them: all are there when the first process comes.
    await setup.database.query(
      `INSERT INTO inbox_message (consumer, message_id, status, available_at, body)
       SELECT 'poison', 'poison-' || n, 'open', clock_timestamp(),
         convert_to(CASE WHEN n = 3 THEN '{"steps":["effect","die"]}'
           ELSE '{"steps":["effect","sql SELECT pg_sleep(0.05)"]}' END, 'UTF8')
       FROM generate_series(1, 12) AS n`,
    );
    let deaths = 0;
    let over = false;
    const supervise = async () => {
      while (!over) {
        const app = setup.start('consumer-app', settings);
        await Promise.race([app.exited, waitFor('the end', () => over, { timeout: 60_000 })]);
        if (!over) deaths++;
      }
    };
    const supervisor = supervise();
    const rows = async () => (await setup.rows()).filter(({ consumer }) => consumer === 'poison');
    await waitFor(
      'all to be settled',
      async () => (await rows()).every(({ status }) => status === 'done' || status === 'dead'),
      { timeout: 50_000, interval: 100 },
    );
    over = true;
    await setup.stopApps();
    await supervisor;
    const dead = (await rows()).filter(({ status }) => status === 'dead');
    expect(dead.map(({ message_id }) => message_id)).toEqual(['poison-3']);
    expect(dead[0]?.body?.toString()).toContain('die');
    expect(dead[0]?.last_error).toContain('Given up after 3 runs');
    expect(deaths).toBe(3);
    const effects = Object.entries(await setup.effects()).filter(([key]) => key.startsWith('poison '));
    expect(effects.map(([, count]) => count)).toEqual(Array<number>(11).fill(1));
  }, 90_000);
});
