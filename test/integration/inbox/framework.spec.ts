import { createTestDatabase } from '../../support/test-database';
import { waitFor } from '../../support/wait-for';
import { InboxSetup, createSchema, logged, rejecting, settled } from './inbox-setup';

describe('as a part of Nest and golevelup', () => {
  let setup: InboxSetup;
  beforeAll(async () => (setup = await InboxSetup.open()));
  afterEach(() => setup.stopApps());
  afterAll(() => setup.close());

  it('C17: decorators in every order, on providers and controllers: subscribed once, metadata and interceptors kept', async () => {
    const queue = setup.broker.queue('c17');
    const names = ['a', 'b', 'c', 'd', 'web', 'first', 'second'];
    const queues = names.map((name) => setup.broker.queue(`c17.${name}`));
    const app = await setup.started('decorated', { queue });
    for (const target of queues) {
      expect((await setup.broker.queueDepth(target)).consumers).toBe(1);
      for (let copy = 0; copy < 2; copy++) {
        await setup.broker.sendToQueue(target, { n: '7' }, { messageId: 'c17' });
      }
    }
    await settled(14, app);

    expect(await setup.effects('c17')).toEqual({
      'Orders.a c17': 1,
      'Orders.b c17': 1,
      'Orders.c c17': 1,
      'Orders.d c17': 1,
      'Web.web c17': 1,
      'First.inherited c17': 1,
      'Second.inherited c17': 1,
    });
    const seen = app.events<{ k: unknown }>('interceptor');
    expect(seen.map(({ k }) => k)).toEqual(Array(7).fill(1));
    expect(app.events('payload')).toEqual([{ n: 7 }]);
    expect(app.events('names')).toEqual([{ a: 'a', b: 'b', c: 'c' }]);
  });

  it('C17: two subclasses of one abstract base have identities of their own', async () => {
    const queue = setup.broker.queue('c17-shared');
    for (const name of ['a', 'b', 'c', 'd', 'web', 'first', 'second'])
      setup.broker.queue(`c17-shared.${name}`);
    await setup.started('decorated', { queue });
    for (let copy = 0; copy < 2; copy++) {
      await setup.broker.publish('amq.fanout', '', { for: queue }, { messageId: 'both' });
    }
    await waitFor('both', async () => Object.keys(await setup.effects('both')).length === 2);
    expect(await setup.effects('both')).toEqual({ 'Left.shared both': 1, 'Right.shared both': 1 });
  });

  it('C17: the application does not start with a handler that would be subscribed twice, and says which and why', async () => {
    const queue = setup.broker.queue('alias');
    const app = setup.start('consumer-app', { queue, variant: 'alias' });
    expect(await app.waitFor('refused')).toMatchObject({
      name: 'IdempotentHandlerError',
      problem: 'registered-twice',
      message: expect.stringContaining(
        '@Idempotent() on Consumer.onMessage: its class is there twice',
      ) as string,
    });
  });

  it('C06: with two data sources everything is in the one that the module is registered for', async () => {
    const billing = await createTestDatabase({ prefix: 'billing' });
    try {
      await createSchema(billing);
      const other = await createTestDatabase({ prefix: 'other' });
      const queue = setup.broker.queue('c06');
      const app = await setup.started('two-databases', {
        queue,
        databaseUrl: other.url,
        variant: billing.url,
      });
      await setup.broker.sendToQueue(
        queue,
        { n: 1, steps: ['effect', 'gate first', 'fail 1'] },
        { messageId: 'c06' },
      );
      await app.waitFor('gate');
      await app.request('open', 'first');
      await app.waitFor('nack');
      const count = async (table: string, where = 'true') =>
        Number(
          (await billing.query<{ count: string }>(`SELECT count(*) FROM ${table} WHERE ${where}`))[0]?.count,
        );
      await waitFor(
        'the second attempt',
        async () => (await count('inbox_message', "status = 'done'")) === 1,
      );
      expect([await count('effect'), await count('inbox_message'), await count('outbox_message')]).toEqual([
        1, 1, 1,
      ]);
      const tables = await other.query(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'",
      );
      expect(tables).toEqual([]);
      await app.close();
      await other.close();
    } finally {
      await billing.close();
    }
  });

  it('C06: two applications in two processes, each with its own database and queue, never mix', async () => {
    const second = await createTestDatabase({ prefix: 'second' });
    try {
      await createSchema(second);
      const queues = ['one', 'two'].map((name) => setup.broker.queue(`c06-${name}`)) as [string, string];
      const one = await setup.started('consumer-app', { queue: queues[0] });
      const two = await setup.started('consumer-app', { queue: queues[1], databaseUrl: second.url });
      for (let n = 0; n < 100; n++) {
        await setup.broker.sendToQueue(queues[0], { steps: ['effect'] }, { messageId: `one-${n}` });
        await setup.broker.sendToQueue(queues[1], { steps: ['effect'] }, { messageId: `two-${n}` });
      }
      await Promise.all([settled(100, one), settled(100, two)]);
      const ids = async (database: typeof second) =>
        (
          await database.query<{ message_id: string }>(
            "SELECT message_id FROM effect WHERE message_id LIKE '___-%'",
          )
        ).map(({ message_id }) => message_id.slice(0, 3));
      expect(await ids(setup.database)).toEqual(Array(100).fill('one'));
      expect(await ids(second)).toEqual(Array(100).fill('two'));
      await two.close();
    } finally {
      await second.close();
    }
  });

  it('without the module a decorated handler does not run: the message goes back, slowly, and it is said why', async () => {
    const queue = setup.broker.queue('unprotected');
    const app = await setup.started('consumer-app', { queue, variant: 'without-module' });
    await setup.broker.sendToQueue(queue, { steps: ['effect'] }, { messageId: 'unprotected' });
    const first = await app.waitFor<{ requeue: boolean }>('nack');
    await app.waitFor('nack');
    expect(first.requeue).toBe(true);
    expect(app.events('run')).toEqual([]);
    expect(app.events('delivery').length).toBeLessThanOrEqual(3);
    expect(logged(app, 'error')[0]).toContain(
      'Consumer.onMessage is decorated with @Idempotent(), but nothing of the inbox',
    );
    // Nothing was lost: with the module it is handled.
    await app.close();
    await setup.started('consumer-app', { queue });
    await waitFor('it to be handled', async () => (await setup.status('unprotected')) === 'done');
  });

  it('inside a transaction of the application: joined, and rolled back with it when the handler fails', async () => {
    const queue = setup.broker.queue('around');
    const app = await setup.started('consumer-app', { queue, ...rejecting, variant: 'transaction-around' });
    await setup.broker.sendToQueue(queue, { steps: ['effect'] }, { messageId: 'joined' });
    await waitFor('it to be handled', async () => (await setup.status('joined')) === 'done');
    expect(await setup.effectCount('around')).toBe(1);

    await setup.broker.sendToQueue(queue, { steps: ['effect', 'fail'] }, { messageId: 'joined-fails' });
    await waitFor('the dead letter', () => setup.broker.get(setup.deadLetters));
    expect(await setup.effectCount('joined-fails')).toBe(0);
    expect(await setup.effectCount('around')).toBe(1);
    expect((await setup.rows('joined-fails'))[0]).toMatchObject({ status: 'seen' });
    expect(app.events('ack')).toHaveLength(1);
  });

  it('inside a transaction of the application an isolation level of its own is refused', async () => {
    const queue = setup.broker.queue('around-level');
    const idempotent = { isolationLevel: 'SERIALIZABLE' as const };
    const app = await setup.started('consumer-app', {
      queue,
      ...rejecting,
      variant: 'transaction-around',
      idempotent,
    });
    await setup.broker.sendToQueue(queue, { steps: ['effect'] }, { messageId: 'level' });
    await waitFor('the dead letter', () => setup.broker.get(setup.deadLetters));
    expect(app.events('run')).toEqual([]);
    expect((await setup.rows('level'))[0]?.last_error).toContain('Isolation level "SERIALIZABLE"');
  });

  it('warns at start when the broker would drop what is rejected', async () => {
    const queue = setup.broker.queue('c17-warned');
    for (const name of ['a', 'b', 'c', 'd', 'web', 'first', 'second'])
      setup.broker.queue(`c17-warned.${name}`);
    const app = await setup.started('decorated', { queue });
    const warned = logged(app, 'warn').filter((text) => text.includes('dead-letter exchange'));
    expect(warned.find((text) => text.includes('Orders.a'))).toContain(`${queue}.a`);
  });

  it('shutdown: a running handler finishes, commits and is acked', async () => {
    const queue = setup.broker.queue('finish');
    const app = await setup.started('consumer-app', { queue });
    await setup.broker.sendToQueue(queue, { steps: ['effect', 'gate on'] }, { messageId: 'finish' });
    await app.waitFor('gate');
    const closing = app.request('close').catch(() => undefined);
    await app.request('open', 'on');
    await closing;
    expect(await app.exited).toEqual({ code: 0, signal: null });
    expect(await setup.status('finish')).toBe('done');
  });

  it('shutdown: a handler that does not finish in time is rolled back and its message handed back', async () => {
    const queue = setup.broker.queue('unfinished');
    const app = await setup.started('consumer-app', { queue });
    await setup.broker.sendToQueue(queue, { steps: ['effect', 'gate never'] }, { messageId: 'unfinished' });
    await app.waitFor('gate');
    await app.request('close').catch(() => undefined);
    expect(await app.exited).toEqual({ code: 0, signal: null });
    expect(await setup.effectCount('unfinished')).toBe(0);
    expect((await setup.broker.queueDepth(queue)).ready).toBe(1);
  });
});
