import { setTimeout as sleep } from 'node:timers/promises';
import { startTcpProxy, type TcpProxy } from '../../support/tcp-proxy';
import { waitFor } from '../../support/wait-for';
import { InboxSetup, logged, settled } from '../inbox/inbox-setup';

/** Milliseconds. Set OUTAGE=30000 for the length that the guarantee names. */
const OUTAGE = Number(process.env['OUTAGE'] ?? 8_000);

describe('the database is away, and the queue counts deliveries', () => {
  let setup: InboxSetup;
  let database: TcpProxy;
  beforeAll(async () => {
    setup = await InboxSetup.open();
    const { hostname, port } = new URL(setup.database.url);
    database = await startTcpProxy({ host: hostname, port: Number(port || 5432) });
  });
  afterAll(async () => {
    await setup.stopApps();
    await database.close();
    await setup.close();
  });

  it.each([
    ['retry', { onFailure: 'retry' as const }],
    ['deferred', { processing: 'deferred' as const }],
  ])(
    'G11: a quorum queue with a delivery limit of 3 loses nothing (%s)',
    async (name, options) => {
      await database.accept();
      const queue = setup.broker.queue(`quorum-${name}`);
      const app = await setup.started('consumer-app', {
        queue,
        variant: 'quorum',
        databaseUrl: database.through(setup.database.url),
        inbox: { backoff: { initialDelay: 100 }, pollInterval: 100 },
        idempotent: { ...options, consumer: name },
      });
      const send = (id: string, ...steps: string[]) =>
        setup.broker.sendToQueue(queue, { steps }, { messageId: `${name}-${id}` });
      // One fails while its failure cannot be written; others come while the database is away.
      await send('failing', 'effect', 'gate on', 'fail 1');
      await app.waitFor('gate');
      await database.refuse();
      await app.request('open', 'on');
      for (let n = 0; n < 4; n++) await send(`${n}`, 'effect');
      await waitFor(
        'all to be held',
        () => logged(app, 'warn').filter((text) => text.includes('Holding')).length >= 4,
      );
      await sleep(OUTAGE);
      expect(app.events('nack')).toEqual([]);
      await database.accept();
      await waitFor('all to be handled', async () => {
        const rows = (await setup.rows()).filter(({ consumer }) => consumer === name);
        return rows.length === 5 && rows.every(({ status }) => status === 'done');
      });
      await settled(5, app);
      expect(app.events('delivery')).toHaveLength(5);
      const effects = Object.entries(await setup.effects()).filter(([key]) => key.startsWith(name));
      expect(effects.map(([, count]) => count)).toEqual([1, 1, 1, 1, 1]);
      expect(await setup.broker.drain(setup.deadLetters)).toEqual([]);
      await setup.stopApps();
    },
    60_000 + OUTAGE,
  );
});
