import { gzipSync } from 'node:zlib';
import { waitFor } from '../../support/wait-for';
import { InboxSetup, logged, rejecting, settled, type InboxRowSeen } from './inbox-setup';

describe('bad input', () => {
  let setup: InboxSetup;
  beforeAll(async () => (setup = await InboxSetup.open()));
  afterEach(async () => {
    await setup.stopApps();
    await setup.broker.drain(setup.deadLetters);
  });
  afterAll(() => setup.close());

  const anonymous = [undefined, undefined, '', '', '   '];
  const sendAnonymous = async (queue: string) => {
    for (const [index, messageId] of anonymous.entries()) {
      await setup.broker.sendToQueue(queue, { n: index + 1, steps: ['effect'] }, { messageId });
    }
  };

  it("C12: onMissingId 'reject': each message without an id is dead-lettered with one clear error", async () => {
    const queue = setup.broker.queue('c12-reject');
    const app = await setup.started('consumer-app', { queue });
    await sendAnonymous(queue);
    await waitFor(
      'all dead letters',
      async () => (await setup.broker.queueDepth(setup.deadLetters)).ready === 5,
    );
    expect(app.events('run')).toEqual([]);
    expect(app.events('ack')).toEqual([]);
    const errors = logged(app, 'error');
    expect(errors).toHaveLength(5);
    expect(errors[0]).toContain(
      'A message for Consumer.onMessage is rejected. A message for Consumer.onMessage has no id',
    );
  });

  it.each(['fingerprint', 'process'] as const)(
    "C12: onMissingId '%s': each is handled",
    async (onMissingId) => {
      const queue = setup.broker.queue(`c12-${onMissingId}`);
      const app = await setup.started('consumer-app', {
        queue,
        idempotent: { onMissingId, consumer: onMissingId },
      });
      await sendAnonymous(queue);
      await sendAnonymous(queue);
      await settled(10, app);
      const numbers = await setup.database.query<{ n: number; count: string }>(
        'SELECT n, count(*) FROM effect WHERE consumer = $1 GROUP BY n ORDER BY n',
        [onMissingId],
      );
      // Known again by its content, or not at all.
      const times = onMissingId === 'fingerprint' ? 1 : 2;
      expect(numbers).toEqual([1, 2, 3, 4, 5].map((n) => ({ n, count: String(times) })));
      const warned = logged(app, 'warn').filter((text) => text.includes('without protection'));
      expect(warned).toHaveLength(onMissingId === 'process' ? 1 : 0);
    },
  );

  it('C12: numbers, strings and bigints as ids', async () => {
    const queue = setup.broker.queue('c12-ids');
    const app = await setup.started('consumer-app', { queue, variant: 'id-from-body' });
    for (const id of [42, '42', 42, '9007199254740993n', '9007199254740992n', undefined]) {
      await setup.broker.sendToQueue(queue, { id, steps: ['effect'] });
    }
    await settled(6, app);
    expect(await setup.effects()).toMatchObject({
      'Consumer.onMessage 42': 1,
      'Consumer.onMessage 9007199254740993': 1,
      'Consumer.onMessage 9007199254740992': 1,
    });
    expect(app.events('nack')).toHaveLength(1);
  });

  it('C14 (d): ids of 255 and 254 bytes work and deduplicate', async () => {
    const queue = setup.broker.queue('c14');
    const app = await setup.started('consumer-app', { queue });
    const ids = ['x'.repeat(255), 'é'.repeat(127), 'É'.repeat(127)];
    for (const messageId of [...ids, ...ids]) {
      await setup.broker.sendToQueue(queue, { steps: ['effect'] }, { messageId });
    }
    await settled(6, app);
    for (const id of ids) expect(await setup.effectCount(id)).toBe(1);
    expect(app.events('ack')).toHaveLength(6);
  });

  it('C14: an id of more than 255 bytes from an extractor is rejected with a clear error', async () => {
    const queue = setup.broker.queue('c14-long');
    const app = await setup.started('consumer-app', { queue, variant: 'id-from-body' });
    await setup.broker.sendToQueue(queue, { id: 'y'.repeat(256), steps: ['effect'] });
    await waitFor('the dead letter', () => setup.broker.get(setup.deadLetters));
    expect(app.events('run')).toEqual([]);
    expect(logged(app, 'error').join()).toContain('longer than 255 bytes');
  });

  const undecodable = () => [
    Buffer.from('not json'),
    Buffer.from('{"a":"x'),
    Buffer.alloc(0),
    Buffer.from([0xff, 0xfe]),
    gzipSync('{"steps":[]}'),
  ];

  it.each(['reject', 'requeue'] as const)(
    "C19: undecodable bodies do not spin (onFailure '%s'), and good messages behind them are handled",
    async (onFailure) => {
      const queue = setup.broker.queue(`c19-${onFailure}`);
      await setup.broker.assertQueue(queue, {
        deadLetterExchange: '',
        deadLetterRoutingKey: setup.deadLetters,
      });
      const bodies = undecodable();
      const isBuried = (row: InboxRowSeen) =>
        row.status === 'dead' && row.message_id.startsWith(`bad-${onFailure}-`);
      for (const [index, body] of bodies.entries()) {
        await setup.broker.sendToQueue(queue, body, { messageId: `bad-${onFailure}-${index}` });
      }
      for (let n = 0; n < 10; n++) {
        await setup.broker.sendToQueue(queue, { steps: ['effect'] }, { messageId: `good-${onFailure}-${n}` });
      }
      const options = { idempotent: { onFailure }, inbox: { maxAttempts: 3 } };
      // Requeued ones hold their place in the prefetch while they wait, so for those there has to be more than one.
      const prefetch = onFailure === 'reject' ? 1 : 6;
      const app = await setup.started('consumer-app', { queue, prefetch, ...options });
      await waitFor('the good ones', () => app.events('run').length === 10, { timeout: 5_000 });
      await waitFor('the bad ones to be out of the queue', async () => {
        const dead = (await setup.rows()).filter(isBuried).length;
        const letters = (await setup.broker.queueDepth(setup.deadLetters)).ready;
        return dead + letters === bodies.length;
      });
      await settled(15, app);

      for (let n = 0; n < 10; n++) expect(await setup.effectCount(`good-${onFailure}-${n}`)).toBe(1);
      const deliveries = app
        .events<{ messageId: string }>('delivery')
        .filter((e) => e.messageId.startsWith('bad-'));
      expect(deliveries.length).toBeLessThanOrEqual(bodies.length * (onFailure === 'reject' ? 1 : 4));
      if (onFailure === 'requeue') {
        const kept = (await setup.rows()).filter(isBuried).map(({ body }) => body?.toString('hex'));
        expect(kept.sort()).toEqual(bodies.map((body) => body.toString('hex')).sort());
      }
    },
  );

  it('a guard that refuses does not spin, and its error is recorded', async () => {
    const queue = setup.broker.queue('guard');
    const app = await setup.started('consumer-app', { queue, ...rejecting, variant: 'guard' });
    await setup.broker.sendToQueue(queue, { steps: ['effect'] }, { messageId: 'guard' });
    await waitFor('the dead letter', () => setup.broker.get(setup.deadLetters));
    expect(app.events('guard')).toHaveLength(1);
    expect((await setup.rows('guard'))[0]).toMatchObject({ status: 'seen' });
  });
});
