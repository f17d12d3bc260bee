import { waitFor } from '../../support/wait-for';
import { InboxSetup, logged, rejecting, settled } from './inbox-setup';

describe('a handler that fails', () => {
  let setup: InboxSetup;
  beforeAll(async () => (setup = await InboxSetup.open()));
  afterEach(() => setup.stopApps());
  afterAll(() => setup.close());

  const deadLetterIds = async () =>
    (await setup.broker.drain(setup.deadLetters)).map(({ properties }) => properties.messageId as string);

  it("onFailure 'reject': rolled back, dead-lettered, and a replay from there is handled", async () => {
    const queue = setup.broker.queue('reject');
    const app = await setup.started('consumer-app', { queue, ...rejecting });
    await setup.broker.sendToQueue(queue, { steps: ['effect', 'fail 1'] }, { messageId: 'reject' });
    const letter = await waitFor('the dead letter', () => setup.broker.get(setup.deadLetters));

    expect(await setup.effectCount('reject')).toBe(0);
    const [row] = await setup.rows('reject');
    expect(row).toMatchObject({ status: 'seen' });
    expect(row?.last_error).toContain('asked to fail');
    const [error] = app
      .events<{ level: string; stack: string; message: string }>('log')
      .filter((e) => e.level === 'error');
    expect(error?.message).toContain('"reject" for Consumer.onMessage failed and was rolled back');
    expect(error?.stack).toContain('script.ts');

    const { content, properties } = letter;
    await setup.broker.sendToQueue(queue, content, { messageId: properties.messageId as string });
    await waitFor('the replay', async () => (await setup.status('reject')) === 'done');
    expect(await setup.effectCount('reject')).toBe(1);
  });

  it("onFailure 'requeue': comes again after a growing pause, at most twice a second, and is dead in the end", async () => {
    const queue = setup.broker.queue('requeue');
    const options = { idempotent: { onFailure: 'requeue' as const }, inbox: { maxAttempts: 4 } };
    const app = await setup.started('consumer-app', { queue, ...options });
    await setup.broker.sendToQueue(queue, { n: 7, steps: ['effect', 'fail'] }, { messageId: 'requeue' });
    await waitFor('it to be dead', async () => (await setup.status('requeue')) === 'dead', {
      timeout: 30_000,
    });
    await settled(1, app);

    const times = app.events<{ at: number }>('delivery').map(({ at }) => at);
    const pauses = times.slice(1).map((at, index) => at - (times[index] ?? 0));
    expect(Math.min(...pauses)).toBeGreaterThanOrEqual(500);
    expect(pauses.at(-1)).toBeGreaterThan(1.2 * (pauses[0] ?? 0));
    const [row] = await setup.rows('requeue');
    expect(row?.last_error).toContain('asked to fail');
    expect(JSON.parse(String(row?.body))).toMatchObject({ n: 7 });
    expect(await setup.effectCount('requeue')).toBe(0);
    expect(await deadLetterIds()).toEqual([]);
  });

  it.each([
    ['false', 'dead-lettered'],
    ['true', 'requeued'],
  ])('a returned Nack(%s) is a failure: rolled back and %s', async (flag) => {
    const queue = setup.broker.queue(`nack-${flag}`);
    // The opposite of the flag: the handler's own answer counts more.
    const onFailure = flag === 'true' ? ('reject' as const) : ('requeue' as const);
    const app = await setup.started('consumer-app', { queue, idempotent: { onFailure } });
    const steps = ['effect', `nack 1 ${flag}`, 'effect'];
    await setup.broker.sendToQueue(queue, { steps }, { messageId: `nack-${flag}` });
    const nack = await app.waitFor<{ requeue: boolean }>('nack');
    expect(nack.requeue).toBe(flag === 'true');
    expect(app.events('run')).toHaveLength(1);

    if (flag === 'true') {
      await waitFor('the second run', async () => (await setup.status('nack-true')) === 'done');
      expect(await setup.effectCount('nack-true')).toBe(2); // both steps of the one run that was kept
      expect(app.events('run')).toHaveLength(2);
    } else {
      await waitFor('the dead letter', () => setup.broker.get(setup.deadLetters));
      expect(await setup.effectCount('nack-false')).toBe(0);
      expect(await setup.status('nack-false')).toBe('seen');
    }
  });

  it('a global exception filter that returns a value does not get a failed message acked', async () => {
    const queue = setup.broker.queue('filter');
    const app = await setup.started('consumer-app', { queue, ...rejecting, variant: 'filter' });
    await setup.broker.sendToQueue(queue, { steps: ['effect', 'fail'] }, { messageId: 'filter' });
    await waitFor('the dead letter', () => setup.broker.get(setup.deadLetters));
    expect(app.events('ack')).toEqual([]);
    expect(await setup.effectCount('filter')).toBe(0);
    expect(logged(app, 'error').join()).toContain('asked to fail');
  });

  it('a swallowed database error: the silent rollback counts as a failure, and is not acked', async () => {
    const queue = setup.broker.queue('swallowed');
    const app = await setup.started('consumer-app', { queue, ...rejecting });
    await setup.broker.sendToQueue(
      queue,
      { steps: ['effect', 'swallow SELECT 1/0'] },
      { messageId: 'swallowed' },
    );
    await waitFor('the dead letter', () => setup.broker.get(setup.deadLetters));
    expect(app.events('ack')).toEqual([]);
    expect(await setup.effectCount('swallowed')).toBe(0);
    expect(await setup.status('swallowed')).toBe('seen');
  });

  it('timeout: the signal is aborted, the handler is rolled back, and what it does later is refused', async () => {
    const queue = setup.broker.queue('timeout');
    const app = await setup.started('consumer-app', { queue, ...rejecting, idempotent: { timeout: 300 } });
    const steps = ['effect', 'until-aborted', 'gate late', 'effect'];
    await setup.broker.sendToQueue(queue, { steps }, { messageId: 'timeout' });
    expect(await app.waitFor('aborted')).toEqual({ reason: 'HandlerTimeoutError' });
    await waitFor('the dead letter', () => setup.broker.get(setup.deadLetters));
    await app.request('open', 'late');
    await waitFor('the straggler to be refused', () =>
      logged(app, 'debug').some((message) => message.includes('TransactionEndedError')),
    );
    expect(await setup.effectCount('timeout')).toBe(0);
    const [row] = await setup.rows('timeout');
    expect(row?.last_error).toContain('took longer than its timeout of 300 ms');
  });

  it('timeout: a statement that is running is cancelled, so that nothing stays locked behind it', async () => {
    const queue = setup.broker.queue('long-statement');
    await setup.started('consumer-app', { queue, ...rejecting, idempotent: { timeout: 300 } });
    const steps = ['effect', 'sql SELECT pg_sleep(600)'];
    await setup.broker.sendToQueue(queue, { steps }, { messageId: 'long' });
    await waitFor('the dead letter', () => setup.broker.get(setup.deadLetters));
    expect(await setup.effectCount('long')).toBe(0);
    const [row] = await setup.rows('long');
    expect(row?.last_error).toContain('took longer than its timeout of 300 ms');
  });

  it('a handler that hangs for ever is rolled back all the same', async () => {
    const queue = setup.broker.queue('hang');
    const app = await setup.started('consumer-app', {
      queue,
      ...rejecting,
      idempotent: { timeout: 200 },
      poolSize: 3,
    });
    await setup.broker.sendToQueue(queue, { steps: ['effect', 'gate never'] }, { messageId: 'hang' });
    await app.waitFor('gate');
    await waitFor('the dead letter', () => setup.broker.get(setup.deadLetters));
    await setup.broker.sendToQueue(queue, { steps: ['effect'] }, { messageId: 'after-hang' });
    await waitFor('the next', async () => (await setup.status('after-hang')) === 'done');
    expect(await setup.effectCount('hang')).toBe(0);
  });

  const raise = (code: string) => `DO $$ BEGIN RAISE EXCEPTION 'staged' USING ERRCODE = '${code}'; END $$`;

  it.each(['40001', '40P01'])('%s in the handler: run again at once, uncounted', async (code) => {
    const queue = setup.broker.queue(`retry-${code}`);
    const app = await setup.started('consumer-app', { queue, ...rejecting });
    const messageId = `retry-${code}`;
    await setup.broker.sendToQueue(queue, { steps: ['effect', `sql 3 ${raise(code)}`] }, { messageId });
    await app.waitFor('ack');
    expect(app.events('run')).toHaveLength(4);
    expect(app.events('delivery')).toHaveLength(1);
    expect(await setup.effectCount(messageId)).toBe(1);
    expect((await setup.rows(messageId))[0]).toMatchObject({ status: 'done', attempts: 1 });
    expect(logged(app, 'error')).toEqual([]);
  });

  it('a handler that changes its payload gets it as it was when it is run again', async () => {
    const queue = setup.broker.queue('spoilt');
    const app = await setup.started('consumer-app', { queue, ...rejecting });
    const steps = ['effect', `sql 1 ${raise('40001')}`];
    await setup.broker.sendToQueue(queue, { n: 1, steps: ['spoil', ...steps] }, { messageId: 'spoilt' });
    await app.waitFor('ack');
    expect(app.events<{ n: number }>('run').map(({ n }) => n)).toEqual([1, 1]);
    expect(await setup.effectCount('spoilt')).toBe(1);
  });

  it('40001 at COMMIT: run again at once', async () => {
    await setup.database.query(`
      CREATE SEQUENCE commits;
      CREATE TABLE deferred (id int);
      CREATE FUNCTION fail_first() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF nextval('commits') <= 2 THEN RAISE EXCEPTION 'staged' USING ERRCODE = '40001'; END IF; RETURN NULL; END $$;
      CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON deferred DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION fail_first()`);
    const queue = setup.broker.queue('at-commit');
    const app = await setup.started('consumer-app', { queue, ...rejecting });
    const steps = ['effect', 'sql INSERT INTO deferred VALUES (1)'];
    await setup.broker.sendToQueue(queue, { steps }, { messageId: 'at-commit' });
    await app.waitFor('ack');
    expect(app.events('run')).toHaveLength(3);
    expect(await setup.effectCount('at-commit')).toBe(1);
  });

  it('a conflict that does not end follows the failure policy after five reruns', async () => {
    const queue = setup.broker.queue('always');
    const app = await setup.started('consumer-app', { queue, ...rejecting });
    await setup.broker.sendToQueue(queue, { steps: [`sql ${raise('40001')}`] }, { messageId: 'always' });
    await waitFor('the dead letter', () => setup.broker.get(setup.deadLetters));
    expect(app.events('run')).toHaveLength(6);
  });

  it.each(['READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE'] as const)(
    'isolationLevel %s: the handler runs in it, and copies at once have one effect',
    async (isolationLevel) => {
      const name = `copies-${isolationLevel.toLowerCase().replace(' ', '-')}`;
      const queue = setup.broker.queue(name);
      const app = await setup.started('consumer-app', { queue, idempotent: { isolationLevel } });
      const steps = [
        'effect',
        `sql INSERT INTO effect (consumer, message_id) SELECT 'level', current_setting('transaction_isolation')`,
        'sql SELECT pg_sleep(0.05)',
      ];
      for (let copy = 0; copy < 6; copy++)
        await setup.broker.sendToQueue(queue, { steps }, { messageId: name });
      await settled(6, app);
      expect(await setup.effects(name)).toEqual({ [`Consumer.onMessage ${name}`]: 1 });
      expect(await setup.effects(isolationLevel.toLowerCase())).toEqual({
        [`level ${isolationLevel.toLowerCase()}`]: 1,
      });
      expect(app.events('ack')).toHaveLength(6);
      expect(await deadLetterIds()).toEqual([]);
    },
  );

  it('RPC: the reply comes after the commit; a duplicate gets the same one', async () => {
    const queue = setup.broker.queue('rpc');
    const app = await setup.started('consumer-app', { queue, variant: 'rpc' });
    const replies = await setup.broker.assertQueue('replies', { autoDelete: true });
    const collector = await setup.broker.collect(replies);
    const request = { messageId: 'rpc', replyTo: replies, correlationId: '1' };
    for (let copy = 1; copy <= 2; copy++) {
      await setup.broker.publish('amq.direct', queue, { steps: ['effect', 'answer fine'] }, request);
      await collector.count(copy);
    }
    expect(collector.messages.map(({ content }) => content.toString())).toEqual(['"fine"', '"fine"']);
    expect(await setup.effectCount('rpc')).toBe(1);
    expect(app.events('run')).toHaveLength(1);
  });
});
