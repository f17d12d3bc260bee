import { waitFor } from '../../support/wait-for';
import { InboxSetup, logged, settled } from '../inbox/inbox-setup';
import { openOutboxTable } from '../outbox-dispatch/outbox-table';
import { lockRow } from './lock-row';

const LEASE = 1_500;

describe('Handlers and the leadership of their process', () => {
  let setup: InboxSetup;
  beforeAll(async () => (setup = await InboxSetup.open()));
  afterEach(() => setup.stopApps());
  afterAll(() => setup.close());

  it('G9: handlers that hold all connections they can get do not cost the lock, and messages leave meanwhile', async () => {
    const { broker, database } = setup;
    const queue = broker.queue('busy');
    const out = await broker.assertQueue('out');
    const collector = await broker.collect(out);
    const app = await setup.started(
      '../../locking/fixtures/busy-app',
      { queue, poolSize: 4, prefetch: 20 },
      { env: { OUTBOX: JSON.stringify({ lease: LEASE, pollInterval: 100, publishTimeout: 1_000 }) } },
    );
    const lock = () => lockRow(database, 'outbox-dispatcher');
    const led = await waitFor('it to lead', lock);

    for (let n = 0; n < 10; n++) {
      const steps = ['effect', 'gate open'];
      await broker.sendToQueue(queue, { n, steps }, { messageId: `busy-${n}` });
    }
    // Each in a transaction that waits for the test: the pool's four, less the two in reserve.
    await waitFor('two handlers', () => app.events('gate').length >= 2);
    const begun = (await lock())!;
    await waitFor('renewals for three leases', async () => {
      return (await lock())!.lockedUntil > begun.lockedUntil + 3 * LEASE;
    });
    expect(await lock()).toMatchObject({ held: true, owner: led.owner, fence: led.fence });
    const table = await openOutboxTable(database.url, 1);
    const [id] = await table.publish({ exchange: '', routingKey: out });
    await waitFor('the message', () => collector.messageIds.includes(id!));
    await table.close();
    expect(app.events('gate')).toHaveLength(2);

    await app.request('open', 'open');
    await settled(10, app);
    expect(await setup.effectCount()).toBe(10);
    expect((await lock())!.fence).toBe(led.fence);
    expect(logged(app, 'warn').filter((line) => line.startsWith('Lock '))).toEqual([]);
  });
});
