import { type AppProcess, startAppProcess } from '../../support/app-process';
import type { Collector } from '../../support/message-collector';
import { waitFor } from '../../support/wait-for';
import { DispatchSetup } from './dispatch-setup';

describe('C49: dispatching in different time zones', () => {
  let setup: DispatchSetup;
  let exchange: string;
  let collector: Collector;
  const processes: AppProcess[] = [];
  beforeAll(async () => {
    setup = await DispatchSetup.open();
    exchange = await setup.broker.assertExchange('ex');
    collector = await setup.broker.collect(await setup.queue('q', exchange));
  });
  afterEach(async () => {
    await Promise.all(processes.splice(0).map((each) => each.close()));
    await setup.database.query('TRUNCATE outbox_message; TRUNCATE shedlock');
  });
  afterAll(() => setup?.close());

  it.each(['UTC', 'America/New_York'])(
    'C49: two replicas in other zones than the database (%s): one leads, what is due leaves at once, what is planned at its date',
    async (databaseZone) => {
      await setup.database.query(`ALTER DATABASE ${setup.database.name} SET TimeZone = '${databaseZone}'`);
      const both = await Promise.all(['Asia/Kolkata', 'UTC'].map((zone) => launch(zone)));
      await Promise.all(both.map((each) => each.request('start')));
      const planned = new Date(Date.now() + 3_000);
      const message = (values: object) => ({ exchange, routingKey: 'q', ...values });
      const published = performance.now();
      const [now, later, after] = await setup.table.publish(
        message({ delay: 0 }),
        message({ deliverAt: planned }),
        message({ delay: 3_000 }),
      );
      const arrives = async (id: string | undefined) => {
        await waitFor('the message', () => collector.messageIds.includes(id), { interval: 10 });
        return performance.now() - published;
      };
      expect(await arrives(now)).toBeLessThan(2_000);
      for (const id of [later, after]) {
        const elapsed = await arrives(id);
        expect(elapsed).toBeGreaterThan(2_800);
        expect(elapsed).toBeLessThan(6_000);
      }
      const locks = await setup.database.query<{ fence: string; held: boolean }>(
        `SELECT fence::text, lock_until BETWEEN (clock_timestamp() AT TIME ZONE 'UTC')
           AND (clock_timestamp() AT TIME ZONE 'UTC') + interval '10 seconds' AS held FROM shedlock`,
      );
      expect(locks).toEqual([{ fence: '1', held: true }]);
    },
  );

  async function launch(zone: string): Promise<AppProcess> {
    const app = startAppProcess('test/integration/outbox-dispatch/fixtures/dispatcher-process.ts', {
      env: {
        TZ: zone,
        DATABASE: setup.database.url,
        BROKER: setup.broker.url,
        OPTIONS: JSON.stringify({ lease: 10_000, pollInterval: 100 }),
      },
    });
    processes.push(app);
    await app.waitFor('ready');
    return app;
  }
});
