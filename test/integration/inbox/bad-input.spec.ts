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

  const dead = async (consumer = 'Consumer.onMessage') =>
    (await setup.rows()).filter((row) => row.status === 'dead' && row.consumer === consumer);

  it.each(['inline', 'deferred'] as const)(
    "C12, G11: onMissingId 'reject': each message without an id is kept as dead with the reason, acked, and can be replayed (%s)",
    async (processing) => {
      // A queue without a dead-letter exchange: what is nacked there is lost.
      const consumer = `c12-reject-${processing}`;
      const queue = setup.broker.queue(consumer);
      const idempotent = { processing, consumer };
      const app = await setup.started('consumer-app', { queue, variant: 'no-dead-letters', idempotent });
      await sendAnonymous(queue);
      await sendAnonymous(queue);
      await settled(10, app);
      expect(app.events('run')).toEqual([]);
      expect(app.events('nack')).toEqual([]);
      expect(app.events('delivery')).toHaveLength(10);
      // All ten: nothing tells whether two with the same content are one.
      const rows = await dead(consumer);
      expect(rows.map(({ body }) => (JSON.parse(String(body)) as { n: number }).n).sort()).toEqual([
        1, 1, 2, 2, 3, 3, 4, 4, 5, 5,
      ]);
      for (const { last_error } of rows) expect(last_error).toMatch(/^MissingMessageIdError: .* has no id/);
      const errors = logged(app, 'error');
      expect(errors).toHaveLength(10);
      expect(errors[0]).toContain(`A message for ${consumer} has no id`);

      await setup.database.query(
        `UPDATE inbox_message SET status = 'open', attempts = 0, available_at = now() WHERE consumer = $1`,
        [consumer],
      );
      await waitFor('the replay', async () =>
        (await setup.rows())
          .filter((row) => row.consumer === consumer)
          .every(({ status }) => status === 'done'),
      );
      const effects = Object.entries(await setup.effects()).filter(([key]) => key.startsWith(`${consumer} `));
      expect(effects.map(([, count]) => count)).toEqual(Array<number>(10).fill(1));
    },
  );

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
    const none = [1.5, true, ['a'], { a: 1 }, 'nul\u0000', '\ud800'];
    for (const id of none) await setup.broker.sendToQueue(queue, { id, steps: ['effect'] });
    await settled(6 + none.length, app);
    expect(await setup.effects()).toMatchObject({
      'Consumer.onMessage 42': 1,
      'Consumer.onMessage 9007199254740993': 1,
      'Consumer.onMessage 9007199254740992': 1,
    });
    expect(app.events('nack')).toEqual([]);
    const reasons = (await dead()).map(({ last_error }) => String(last_error).replace(/\n[^]*/, ''));
    expect(reasons.sort()).toEqual([
      expect.stringContaining('MessageIdError: The message id contains a NUL character'),
      expect.stringContaining('MessageIdError: The message id is a number that is not a safe integer'),
      expect.stringContaining(
        "MessageIdError: The message id is neither a string nor a number nor a bigint: [ 'a' ]",
      ),
      expect.stringContaining(
        'MessageIdError: The message id is neither a string nor a number nor a bigint: true',
      ),
      expect.stringContaining(
        'MessageIdError: The message id is neither a string nor a number nor a bigint: { a: 1 }',
      ),
      expect.stringContaining('MessageIdError: The message id is not well-formed Unicode'),
      expect.stringContaining('MissingMessageIdError: '),
    ]);
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

  it('C14: an id of more than 255 bytes from an extractor is kept as dead with a clear error', async () => {
    const queue = setup.broker.queue('c14-long');
    const app = await setup.started('consumer-app', { queue, variant: 'id-from-body' });
    await setup.broker.sendToQueue(queue, { id: 'y'.repeat(256), steps: ['effect'] });
    await settled(1, app);
    expect(app.events('run')).toEqual([]);
    expect(app.events('nack')).toEqual([]);
    const [row] = (await dead()).filter(({ last_error }) => last_error?.includes('longer than 255 bytes'));
    expect(String(row?.body)).toContain('yyy');
  });

  it.each(['retry', 'deferred'] as const)(
    'G11: a NUL in a routing key holds nobody up: it is kept, and comes to the handler as it was (%s)',
    async (mode) => {
      const queue = setup.broker.queue(`nul-${mode}`);
      const exchange = await setup.broker.assertExchange(`nul-${mode}`);
      const consumer = `nul-${mode}`;
      const idempotent = mode === 'retry' ? { onFailure: mode, consumer } : { processing: mode, consumer };
      const inbox = { backoff: { initialDelay: 50 }, pollInterval: 50 };
      const app = await setup.started('pipeline-app', { queue, idempotent, inbox });
      await setup.broker.bind(queue, exchange);
      // The fixture fails the first message that it sees.
      const keys = ['nul.a\u0000b', 'good.1', 'good.2'];
      for (const key of keys)
        await setup.broker.publish(exchange, key, {}, { messageId: key.slice(0, 5) + key.at(-1) });
      await waitFor(
        'all to be done',
        async () =>
          (await setup.rows()).filter((row) => row.consumer === consumer && row.status === 'done').length ===
          3,
      );
      const seen = app
        .events<{ fields: { routingKey: string } }>('seen')
        .map(({ fields }) => fields.routingKey);
      expect([...new Set(seen)].sort()).toEqual([...keys].sort());
      expect(seen).toHaveLength(4);
      await settled(3, app);
      expect(app.events('delivery')).toHaveLength(3);
    },
  );

  it('G11: an undecodable body with a NUL in its routing key is dead, and its neighbours are handled', async () => {
    const queue = setup.broker.queue('nul-body');
    const exchange = await setup.broker.assertExchange('nul-body');
    const app = await setup.started('consumer-app', { queue, prefetch: 1 });
    await setup.broker.bind(queue, exchange);
    await setup.broker.publish(exchange, 'a\u0000b', Buffer.from('not json'), { messageId: 'nul-body' });
    await setup.broker.publish(exchange, 'good', { steps: ['effect'] }, { messageId: 'nul-body-good' });
    await settled(2, app);
    expect((await setup.rows('nul-body'))[0]).toMatchObject({ status: 'dead', routing_key: 'a\\0b' });
    expect(await setup.effectCount('nul-body-good')).toBe(1);
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
