import { waitFor } from '../../support/wait-for';
import { InboxSetup, settled } from '../inbox/inbox-setup';

const APP = '../../inbox-edges/fixtures/duplicates-app';

describe('duplicates', () => {
  let setup: InboxSetup;
  beforeAll(async () => (setup = await InboxSetup.open()));
  afterEach(() => setup.stopApps());
  afterAll(() => setup.close());

  it('the context can be injected: identity, attempt and the duplicate flag', async () => {
    const queue = setup.broker.queue('context');
    const app = await setup.started(APP, {
      queue,
      idempotent: { onDuplicate: 'pass', onFailure: 'retry', retry: { backoff: { initialDelay: 100 } } },
    });
    const known = { consumer: 'Consumer.onMessage', messageId: 'ctx', aborted: false, same: true };
    await setup.broker.sendToQueue(queue, { fails: 2 }, { messageId: 'ctx' });
    await waitFor('the third attempt', async () => (await setup.status('ctx')) === 'done');
    await setup.broker.sendToQueue(queue, {}, { messageId: 'ctx' });
    await waitFor('the duplicate', () => app.events('context').length === 4);
    expect(app.events('context')).toEqual([
      { ...known, attempt: 1, duplicate: false },
      { ...known, attempt: 2, duplicate: false },
      { ...known, attempt: 3, duplicate: false },
      { ...known, attempt: 1, duplicate: true },
    ]);
  });

  it('G2: a duplicate wakes the dispatcher: what the first has published may wait, since its process died before it could', async () => {
    const queue = setup.broker.queue('wake');
    const target = await setup.broker.assertQueue('target');
    const app = await setup.started(APP, { queue });
    await setup.broker.sendToQueue(queue, {}, { messageId: 'wake' });
    await settled(1, app);
    // As a killed process leaves it.
    await setup.database.query(
      'INSERT INTO outbox_message (message_id, exchange, routing_key, body) VALUES ($1, $2, $3, $4)',
      ['left', '', target, '{"left":true}'],
    );
    await setup.broker.sendToQueue(queue, {}, { messageId: 'wake' });
    const sent = await waitFor('the message', () => setup.broker.get(target), { timeout: 10_000 });
    expect(sent.properties.messageId).toBe('left');
  });
});
