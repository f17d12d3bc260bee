import { InboxSetup, logged, rejecting, settled } from './inbox-setup';

describe('C04: handlers and a small pool', () => {
  let setup: InboxSetup;
  beforeAll(async () => (setup = await InboxSetup.open()));
  afterEach(() => setup.stopApps());
  afterAll(() => setup.close());

  it.each([1, 2, 3])(
    'C04: ten messages at once, each published twice, with a pool of %d',
    async (poolSize) => {
      const queue = setup.broker.queue(`pool-${poolSize}`);
      const app = await setup.started('consumer-app', { queue, ...rejecting, poolSize, prefetch: 20 });
      let most = 0;
      const watch = setInterval(() => {
        void setup.database
          .query<{ count: string }>(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'fixture' AND xact_start IS NOT NULL",
          )
          .then(
            ([row]) => (most = Math.max(most, Number(row?.count))),
            () => undefined,
          );
      }, 20);
      for (let n = 0; n < 20; n++) {
        const steps = ['effect', 'sql SELECT pg_sleep(0.05)', 'fail 1'];
        await setup.broker.sendToQueue(
          queue,
          { steps: n < 10 ? steps : steps.slice(0, 2) },
          { messageId: `pool-${poolSize}-${n % 10}` },
        );
      }
      await settled(20, app);
      clearInterval(watch);

      for (let n = 0; n < 10; n++) {
        const count = await setup.effectCount(`pool-${poolSize}-${n}`);
        // The first copy fails and is rejected, unless the second was quicker.
        expect(count).toBe(1);
      }
      expect(most).toBeLessThanOrEqual(poolSize);
      expect(logged(app, 'warn').filter((text) => text.includes('Holding'))).toEqual([]);
    },
  );

  it.each([2, 4])(
    'C04: handlers that take a second connection do not wait for each other for ever, pool of %d',
    async (poolSize) => {
      const queue = setup.broker.queue(`second-${poolSize}`);
      await setup.broker.assertQueue(queue, {
        deadLetterExchange: '',
        deadLetterRoutingKey: setup.deadLetters,
      });
      for (let n = 0; n < 10; n++) {
        const steps = ['effect', 'sql SELECT pg_sleep(0.05)', 'outside'];
        await setup.broker.sendToQueue(queue, { steps }, { messageId: `second-${poolSize}-${n}` });
      }
      const app = await setup.started('consumer-app', { queue, poolSize, prefetch: 20 });
      await settled(10, app);
      for (let n = 0; n < 10; n++) expect(await setup.effectCount(`second-${poolSize}-${n}`)).toBe(1);
    },
  );
});
