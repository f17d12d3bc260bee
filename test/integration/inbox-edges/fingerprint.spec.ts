import { FingerprintConflictError, type RepeatedContent } from '../../../lib';
import { waitFor } from '../../support/wait-for';
import { InboxSetup, logged, settled } from '../inbox/inbox-setup';
import { json, RpcRequester } from './rpc-requester';
import { startServiceApp } from './service-app';

const BATCH_APP = '../../inbox-edges/fixtures/batch-app';
const RPC_APP = '../../inbox-edges/fixtures/rpc-app';

describe('fingerprints', () => {
  let setup: InboxSetup;
  beforeAll(async () => (setup = await InboxSetup.open()));
  afterEach(async () => {
    await setup.stopApps();
    await setup.database.query('DELETE FROM inbox_message; DELETE FROM effect');
  });
  afterAll(() => setup.close());

  const idempotent = { fingerprint: true };
  const send = (queue: string, messageId: string, n: number) =>
    setup.broker.sendToQueue(queue, { n, steps: ['effect'] }, { messageId });

  it('new id on repeat: the same content under a new id is handled, and reported', async () => {
    const queue = setup.broker.queue('new-id');
    const app = await setup.started('consumer-app', { queue, idempotent, prefetch: 1 });
    await send(queue, 'first', 1);
    await send(queue, 'second', 1);
    await send(queue, 'third', 2);
    await settled(3, app);
    expect(await setup.effectCount()).toBe(3);
    const repeats = logged(app, 'warn').filter((text) => text.includes('the same content'));
    expect(repeats).toEqual([
      expect.stringContaining('Message "second" for Consumer.onMessage has the same content as "first"'),
    ]);
  });

  it('without the option nothing is compared', async () => {
    const queue = setup.broker.queue('off');
    const app = await setup.started('consumer-app', { queue, prefetch: 1 });
    await send(queue, 'first', 1);
    await send(queue, 'second', 1);
    await send(queue, 'first', 2);
    await settled(3, app);
    expect(logged(app, 'warn').filter((text) => text.includes('the same content'))).toEqual([]);
    expect((await setup.rows()).map(({ message_id }) => message_id).sort()).toEqual(['first', 'second']);
  });

  it('G7, G11: other content under a known id is kept as dead, and the row of the first stays as it is', async () => {
    const queue = setup.broker.queue('conflict');
    const app = await setup.started('consumer-app', { queue, idempotent, prefetch: 1 });
    await send(queue, 'same', 1);
    await settled(1, app);
    const before = await setup.rows('same');
    for (const n of [2, 2, 3, 1]) await send(queue, 'same', n);
    await settled(5, app);

    expect(await setup.rows('same')).toEqual(before);
    expect(await setup.effectCount()).toBe(1);
    const dead = (await setup.rows()).filter(({ status }) => status === 'dead');
    expect(dead.map(({ body }) => (JSON.parse(String(body)) as { n: number }).n).sort()).toEqual([2, 3]);
    for (const { message_id, last_error } of dead) {
      expect(message_id).toMatch(/^conflict:[0-9a-f]{64}$/);
      expect(last_error).toMatch(/^FingerprintConflictError: Message "same" for Consumer.onMessage/);
    }
    expect(app.events('nack')).toEqual([]);
  });

  it('in a batch, and between its messages', async () => {
    const queue = setup.broker.queue('batch');
    await setup.broker.assertQueue(queue, {
      deadLetterExchange: '',
      deadLetterRoutingKey: setup.deadLetters,
    });
    await setup.broker.sendToQueue(queue, { n: 1 }, { messageId: 'a' });
    await setup.broker.sendToQueue(queue, { n: 2 }, { messageId: 'a' });
    await setup.broker.sendToQueue(queue, { n: 1 }, { messageId: 'b' });
    await setup.broker.sendToQueue(queue, { n: 1 }, { messageId: 'a' });
    const app = await setup.started(BATCH_APP, { queue, idempotent });
    await settled(4, app);
    expect(await setup.effects()).toEqual({ 'batch a': 1, 'batch b': 1 });
    const dead = (await setup.rows()).filter(({ status }) => status === 'dead');
    expect(dead.map(({ body }) => String(body))).toEqual(['{"n":2}']);
    expect(logged(app, 'warn').filter((text) => text.includes('"b" for batch has the same'))).toHaveLength(1);
  });

  it('RPC: other content under a known id is answered with the error', async () => {
    const queue = setup.broker.queue('rpc');
    await setup.started(RPC_APP, { queue, idempotent });
    const requester = await RpcRequester.open(setup.broker);
    const ask = (n: number) =>
      requester.request(queue, { n, steps: [], reply: 'string' }, { messageId: 'rpc-conflict' });
    const first = await ask(1);
    expect(json(await ask(2))).toMatchObject({ error: { name: 'FingerprintConflictError' } });
    expect((await ask(1)).body.equals(first.body)).toBe(true);
  });

  it('InboxService: content is compared when it is given', async () => {
    const events: RepeatedContent[] = [];
    const { app, inbox } = await startServiceApp(setup.database, {
      onRepeatedContent: (event) => void events.push(event),
    });
    try {
      const process = (id: string, content: string) => inbox.process('hook', id, () => content, { content });
      expect(await process('1', 'a')).toEqual({ duplicate: false, value: 'a' });
      expect(await process('1', 'a')).toEqual({ duplicate: true });
      await expect(process('1', 'b')).rejects.toThrow(FingerprintConflictError);
      await process('2', 'a');
      await waitFor('the report', () => events.length === 1);
      expect(events).toEqual([{ consumer: 'hook', messageId: '2', previousMessageId: '1' }]);
    } finally {
      await app.close();
    }
  });
});
