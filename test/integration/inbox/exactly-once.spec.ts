import { waitFor } from '../../support/wait-for';
import { InboxSetup, logged, rejecting, settled } from './inbox-setup';

describe('exactly once', () => {
  let setup: InboxSetup;
  beforeAll(async () => (setup = await InboxSetup.open()));
  afterEach(() => setup.stopApps());
  afterAll(() => setup.close());

  const once = (messageId: string, consumer = 'Consumer.onMessage') => ({ [`${consumer} ${messageId}`]: 1 });

  it('G5: a later duplicate is acked and has no effect', async () => {
    const queue = setup.broker.queue('later');
    const app = await setup.started('consumer-app', { queue });
    await setup.broker.sendToQueue(queue, { steps: ['effect'] }, { messageId: 'later' });
    await waitFor('the first', async () => (await setup.status('later')) === 'done');

    for (let copy = 0; copy < 3; copy++) {
      await setup.broker.sendToQueue(queue, { steps: ['effect'] }, { messageId: 'later' });
    }
    await settled(4, app);

    expect(await setup.effects('later')).toEqual(once('later'));
    expect(app.events('ack')).toHaveLength(4);
    expect(logged(app, 'error')).toEqual([]);
  });

  it('G5: ten copies at once have one effect', async () => {
    const queue = setup.broker.queue('at-once');
    await setup.broker.assertQueue(queue, {
      deadLetterExchange: '',
      deadLetterRoutingKey: setup.deadLetters,
    });
    for (let copy = 0; copy < 10; copy++) {
      await setup.broker.sendToQueue(queue, { steps: ['effect', 'gate on'] }, { messageId: 'at-once' });
    }
    const app = await setup.started('consumer-app', { queue });
    await app.waitFor('gate');
    await waitFor('all copies to be there', () => app.events('delivery').length === 10);
    await app.request('open', 'on');
    await settled(10, app);

    expect(await setup.effects('at-once')).toEqual(once('at-once'));
    expect(app.events('run')).toHaveLength(1);
  });

  it('G5: copies at once run after the first has failed, and one of them has the effect', async () => {
    const queue = setup.broker.queue('first-fails');
    const app = await setup.started('consumer-app', { queue, ...rejecting });
    for (let copy = 0; copy < 5; copy++) {
      await setup.broker.sendToQueue(queue, { steps: ['effect', 'fail 1'] }, { messageId: 'first-fails' });
    }
    await settled(5, app);

    expect(await setup.effects('first-fails')).toEqual(once('first-fails'));
    expect(app.events('run')).toHaveLength(2);
    // The copy that failed is rejected, unless another one was through before its failure was recorded: then it is acked.
    const rejected = app.events('nack').length;
    expect(rejected).toBeLessThanOrEqual(1);
    if (rejected) await waitFor('the rejected copy', () => setup.broker.get(setup.deadLetters));
  });

  it('C09: a copy in another process waits for the first, is acked after its commit, and has no effect (20 rounds)', async () => {
    const queue = setup.broker.queue('two-processes');
    const apps = [
      await setup.started('consumer-app', { queue, prefetch: 1 }),
      await setup.started('consumer-app', { queue, prefetch: 1 }),
    ];
    for (let round = 0; round < 20; round++) {
      const messageId = `c09-${round}`;
      const copies = [1, 2].map(() =>
        setup.broker.sendToQueue(queue, { steps: ['effect', `gate ${messageId}`] }, { messageId }),
      );
      await Promise.all(copies);
      const mine = (type: string) =>
        apps.flatMap((app) =>
          app.events<{ messageId: string }>(type).filter((e) => e.messageId === messageId),
        );
      await waitFor(
        'both copies delivered, one of them at work',
        () => mine('delivery').length + mine('gate').length === 3,
      );
      await waitFor('the other to wait at the row', async () => {
        const [waiting] = await setup.database.query<{ count: string }>(
          "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
        );
        return waiting?.count === '1';
      });
      expect(mine('ack')).toEqual([]);

      await Promise.all(apps.map((app) => app.request('open', messageId)));
      await waitFor('both acks', () => mine('ack').length === 2);
      expect(mine('nack')).toEqual([]);
      expect(await setup.effects(messageId)).toEqual(once(messageId));
    }
    await setup.broker.drained(queue, { timeout: 10_000 });
    expect(apps.flatMap((app) => logged(app, 'error'))).toEqual([]);
    expect(await setup.broker.drain(setup.deadLetters)).toEqual([]);
  });

  it('C11: one event for three handlers has its effect in each, and a failing one is repeated alone', async () => {
    const queue = setup.broker.queue('fan');
    const exchange = setup.broker.exchange('orders');
    for (const suffix of ['h1', 'h2', 'h3']) setup.broker.queue(`fan.${suffix}`);
    const app = await setup.started('fan-out', { queue, exchange });
    const all = { 'Billing.handle fan-1': 1, 'Billing.handleToo fan-1': 1, 'Shipping.handle fan-1': 1 };

    await setup.broker.publish(
      exchange,
      'order.placed',
      { steps: ['effect', 'fail 1'] },
      { messageId: 'fan-1' },
    );
    await waitFor('all three', async () => Object.keys(await setup.effects('fan-1')).length === 3);
    await setup.broker.publish(
      exchange,
      'order.placed',
      { steps: ['effect', 'fail 1'] },
      { messageId: 'fan-1' },
    );
    await settled(6, app);

    expect(await setup.effects('fan-1')).toEqual(all);
    const runs = app.events<{ consumer: string }>('run').map(({ consumer }) => consumer);
    expect(runs.sort()).toEqual([
      'Billing.handle',
      'Billing.handleToo',
      'Billing.handleToo',
      'Shipping.handle',
    ]);
  });

  it("onDuplicate 'pass': the handler runs again for what is done, and is told so", async () => {
    const queue = setup.broker.queue('pass');
    const app = await setup.started('consumer-app', { queue, idempotent: { onDuplicate: 'pass' } });
    for (let copy = 1; copy <= 2; copy++) {
      await setup.broker.sendToQueue(queue, { steps: ['effect'] }, { messageId: 'pass' });
      await waitFor(`effect ${copy}`, async () => (await setup.effectCount('pass')) === copy);
    }
    const flags = app.events<{ duplicate: boolean }>('run').map(({ duplicate }) => duplicate);
    expect(flags).toEqual([false, true]);
  });
});
