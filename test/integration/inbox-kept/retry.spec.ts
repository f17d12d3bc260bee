import type { AppProcess } from '../../support/app-process';
import { waitFor } from '../../support/wait-for';
import { InboxSetup, logged } from '../inbox/inbox-setup';

/** Quick, so that a test need not wait for a second run. */
const inbox = {
  backoff: { initialDelay: 100, maxDelay: 400 },
  pollInterval: 50,
  maxAttempts: 4,
} as const;
const retry = { idempotent: { onFailure: 'retry' as const }, inbox };

describe("onFailure 'retry'", () => {
  let setup: InboxSetup;
  let shared: AppProcess;
  let queue: string;
  beforeAll(async () => {
    setup = await InboxSetup.open();
    queue = setup.broker.queue('retry');
    shared = await setup.started('consumer-app', { queue, ...retry });
  });
  afterAll(() => setup.close());

  const send = (messageId: string, ...steps: string[]) =>
    setup.broker.sendToQueue(queue, { steps }, { messageId, headers: { h: 1 } });
  const ends = (messageId: string, status: string, timeout = 15_000) =>
    waitFor(`${messageId} to be ${status}`, async () => (await setup.status(messageId)) === status, {
      timeout,
    });
  const of = <E extends object>(type: string, messageId: string) =>
    shared.events<E & { messageId: string }>(type).filter((event) => event.messageId === messageId);

  it('G11: a message that fails is kept with its body, acked, and handled again until it succeeds', async () => {
    await send('again', 'effect', 'fail 2');
    await ends('again', 'done');

    expect(await setup.effectCount('again')).toBe(1);
    expect(of('run', 'again')).toHaveLength(3);
    expect(of('delivery', 'again')).toHaveLength(1);
    expect(of('ack', 'again')).toHaveLength(1);
    expect(of('nack', 'again')).toEqual([]);
    const [row] = await setup.rows('again');
    expect(row).toMatchObject({ attempts: 2, body: null });
    expect(row?.last_error).toContain('asked to fail (run 2)');
    expect(await setup.broker.drain(setup.deadLetters)).toEqual([]);
  });

  it('G11: it is dead after maxAttempts, with its error, its body and its headers', async () => {
    await send('dead', 'effect', 'fail');
    await ends('dead', 'dead');
    const [row] = await setup.rows('dead');
    expect(of('run', 'dead')).toHaveLength(4);
    expect(row).toMatchObject({ attempts: 4 });
    expect(row?.last_error).toContain('asked to fail (run 4)');
    expect(JSON.parse(String(row?.body))).toEqual({ steps: ['effect', 'fail'] });
    expect(JSON.parse(row?.headers ?? '')).toEqual({ h: 1 });
    expect(await setup.effectCount('dead')).toBe(0);
    expect(
      logged(shared, 'error').some((text) => text.includes('"dead"') && text.includes('it is dead')),
    ).toBe(true);

    // A copy that comes now is a duplicate, and changes nothing.
    await send('dead', 'effect');
    await waitFor('its ack', () => of('ack', 'dead').length === 2);
    expect(await setup.status('dead')).toBe('dead');

    // Replayed as a service for dead letters does it.
    await setup.database.query(
      `UPDATE inbox_message SET status = 'open', attempts = 0, available_at = clock_timestamp(), claim_token = NULL,
         claimed_until = NULL, body = $1 WHERE message_id = 'dead'`,
      [Buffer.from('{"steps":["effect"]}')],
    );
    await ends('dead', 'done');
    expect(await setup.effectCount('dead')).toBe(1);
  });

  it("a handler's own retry option counts more than the module's", async () => {
    const own = setup.broker.queue('own');
    const idempotent = {
      ...retry.idempotent,
      consumer: 'own',
      retry: { maxAttempts: 2, backoff: { initialDelay: 50 } },
    };
    const app = await setup.started('consumer-app', { queue: own, inbox, idempotent });
    await setup.broker.sendToQueue(own, { steps: ['fail'] }, { messageId: 'own' });
    await ends('own', 'dead');
    expect(app.events('run')).toHaveLength(2);
  });

  it('a NonRetryableError is dead at once, on a delivery and on a later run', async () => {
    await send('at-once', 'effect', 'fail-for-good');
    await send('later', 'effect', 'fail 1', 'fail-for-good');
    await ends('at-once', 'dead');
    await ends('later', 'dead');
    expect((await setup.rows('at-once'))[0]?.last_error).toContain('asked to fail for good');
    expect(of('run', 'at-once')).toHaveLength(1);
    expect(of('run', 'later')).toHaveLength(2);
    expect(await setup.effectCount('at-once')).toBe(0);
    expect(await setup.effectCount('later')).toBe(0);
  });

  it('pauses grow, and a message never runs more than twice a second by default', async () => {
    const slow = setup.broker.queue('pauses');
    const idempotent = { ...retry.idempotent, consumer: 'slow' };
    const app = await setup.started('consumer-app', { queue: slow, idempotent });
    await setup.broker.sendToQueue(slow, { steps: ['fail 2'] }, { messageId: 'pauses' });
    await ends('pauses', 'done');
    const times = app.events<{ at: number }>('run').map(({ at }) => at);
    const pauses = times.slice(1).map((at, index) => at - (times[index] ?? 0));
    // A second and two, of which up to a fifth is taken off; a busy machine only makes them longer.
    expect(pauses[0]).toBeGreaterThanOrEqual(800);
    expect(pauses[1]).toBeGreaterThanOrEqual(1_600);
  });

  it('copies that come while it is kept are acked and do not run; others are not held up', async () => {
    await send('copies', 'effect', 'fail 1', 'gate on');
    await shared.waitFor('gate');
    for (let copy = 0; copy < 3; copy++) await send('copies', 'effect');
    await send('other', 'effect');
    await ends('other', 'done');
    await waitFor('the acks of the copies', () => of('ack', 'copies').length === 4);
    await shared.request('open', 'on');
    await ends('copies', 'done');
    expect(await setup.effectCount('copies')).toBe(1);
    expect(await setup.effectCount('other')).toBe(1);
  });

  it('a returned Nack(true) on a later run is another try, Nack(false) is dead', async () => {
    await send('nack-true', 'fail 1', 'nack 2 true', 'effect');
    await send('nack-false', 'fail 1', 'nack 2 false', 'effect');
    await ends('nack-true', 'done');
    await ends('nack-false', 'dead');
    expect(await setup.effectCount('nack-true')).toBe(1);
    expect(await setup.effectCount('nack-false')).toBe(0);
    expect(shared.events('nack')).toEqual([]);
  });

  it("a message without an id is kept too (onMissingId 'process')", async () => {
    const anonymous = setup.broker.queue('anonymous');
    const idempotent = { ...retry.idempotent, onMissingId: 'process' as const, consumer: 'anonymous' };
    await setup.started('consumer-app', { queue: anonymous, inbox, idempotent });
    await setup.broker.sendToQueue(anonymous, { n: 1, steps: ['effect', 'fail 1'] });
    const kept = async () => (await setup.rows()).filter(({ consumer }) => consumer === 'anonymous');
    await waitFor('it to be handled', async () => (await kept())[0]?.status === 'done');
    expect(await kept()).toHaveLength(1);
  });

  it('a failure of the transaction of the application around is kept after its end', async () => {
    const queue = setup.broker.queue('around');
    const idempotent = { ...retry.idempotent, consumer: 'around' };
    const app = await setup.started('consumer-app', {
      queue,
      inbox,
      idempotent,
      variant: 'transaction-around',
    });
    await setup.broker.sendToQueue(queue, { steps: ['effect', 'fail 2'] }, { messageId: 'around' });
    await ends('around', 'done');
    expect(await setup.effectCount('around')).toBe(2); // its own, and the one of the transaction around it
    expect(app.events('delivery')).toHaveLength(1);
    expect((await setup.rows('around'))[0]).toMatchObject({ attempts: 2 });
  });

  it('what fails before the handler (a guard, an undecodable body) is kept, and dead in the end', async () => {
    const queue = setup.broker.queue('guard');
    const idempotent = { ...retry.idempotent, consumer: 'guard' };
    const app = await setup.started('consumer-app', { queue, inbox, idempotent, variant: 'guard' });
    await setup.broker.sendToQueue(queue, { steps: ['effect'] }, { messageId: 'guard' });
    await setup.broker.sendToQueue(queue, Buffer.from('not json'), { messageId: 'not-json' });
    await ends('guard', 'dead');
    await ends('not-json', 'dead');
    // For each run of the one; a body that cannot be decoded may pass it too.
    expect(app.events('guard').length).toBeGreaterThanOrEqual(4);
    expect(String((await setup.rows('not-json'))[0]?.body)).toBe('not json');
    expect(app.events('delivery')).toHaveLength(2);
  });

  it("onFailure 'requeue' gets exactly maxAttempts runs", async () => {
    const queue = setup.broker.queue('requeue');
    const idempotent = { consumer: 'requeue', onFailure: 'requeue' as const, retry: { maxAttempts: 3 } };
    const app = await setup.started('consumer-app', { queue, idempotent });
    await setup.broker.sendToQueue(queue, { steps: ['fail'] }, { messageId: 'requeue' });
    await waitFor('it to be dead', async () => (await setup.status('requeue')) === 'dead', {
      timeout: 15_000,
    });
    expect(app.events('run')).toHaveLength(3);
    expect((await setup.rows('requeue'))[0]?.last_error).toContain('asked to fail (run 3)');
  });

  it('RPC and a kept message do not go together: refused at start', async () => {
    const queue = setup.broker.queue('rpc');
    const app = setup.start('consumer-app', { queue, ...retry, variant: 'rpc' });
    const refused = await app.waitFor<{ problem: string; message: string }>('refused');
    expect(refused).toMatchObject({ problem: 'rpc-kept' });
  });
});
