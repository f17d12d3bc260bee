import type { AppProcess } from '../../support/app-process';
import { waitFor } from '../../support/wait-for';
import { InboxSetup } from '../inbox/inbox-setup';

/*
 * The mistakes that the literature of the pattern names. "Done twice" is in deferred.spec.ts, "cleaned too early" in
 * test/unit/message/retention.spec.ts and here, "a new id on a repeat" with the fingerprints.
 */
describe('the typical mistakes of an inbox', () => {
  let setup: InboxSetup;
  let app: AppProcess;
  let queue: string;
  const inbox = { backoff: { initialDelay: 50 }, pollInterval: 50, cleanup: { interval: 50 } } as const;
  beforeAll(async () => {
    setup = await InboxSetup.open();
    queue = setup.broker.queue('mistakes');
    app = await setup.started('consumer-app', { queue, inbox, idempotent: { onFailure: 'retry' } });
  });
  afterAll(() => setup.close());

  const send = (messageId: string, ...steps: string[]) =>
    setup.broker.sendToQueue(queue, { n: 1, steps }, { messageId });
  const ends = (messageId: string, status: string) =>
    waitFor(`${messageId} to be ${status}`, async () => (await setup.status(messageId)) === status);

  it('separate transactions: the row and the effect are there together or not at all', async () => {
    await send('separate', 'effect', 'gate separate', 'fail 1');
    await app.waitFor<{ name: string }>('gate', ({ name }) => name === 'separate');
    // Neither is to be seen while the handler runs, and neither is left when it has failed.
    expect(await setup.rows('separate')).toEqual([]);
    expect(await setup.effectCount('separate')).toBe(0);
    await app.request('open', 'separate');
    await ends('separate', 'done');
    expect(await setup.effectCount('separate')).toBe(1);
    expect(app.events<{ messageId: string }>('run').filter((e) => e.messageId === 'separate')).toHaveLength(
      2,
    );
  });

  it('effect outside the database: what is published from the handler is rolled back with it; a call is not', async () => {
    await send('outside', 'effect', 'publish', 'call', 'fail 2');
    await ends('outside', 'done');
    expect(app.events('call')).toHaveLength(3);
    expect(await setup.database.query('SELECT 1 FROM outbox_message')).toHaveLength(1);
    expect(await setup.effectCount('outside')).toBe(1);
  });

  it('cleaned too early: a redelivery inside the horizon finds the message remembered', async () => {
    await send('cleaned', 'effect');
    await ends('cleaned', 'done');
    // Handled as long ago as it may be remembered at least, and cleaned every 50 ms; what is older is gone.
    await setup.database.query(
      `UPDATE inbox_message SET processed_at = now() - interval '6 days 23 hours' WHERE message_id = 'cleaned'`,
    );
    await setup.database.query(
      `INSERT INTO inbox_message (consumer, message_id, status, processed_at) VALUES ('c', 'old', 'done', now() - interval '8 days')`,
    );
    await waitFor('the cleaner', async () => (await setup.rows('old')).length === 0);
    await send('cleaned', 'effect');
    await waitFor(
      'its ack',
      () => app.events<{ messageId: string }>('ack').filter((e) => e.messageId === 'cleaned').length === 2,
    );
    expect(await setup.effectCount('cleaned')).toBe(1);
  });
});
