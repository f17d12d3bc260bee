import { createRetryPolicy } from '../../../lib/message/retry-policy';
import type { ClaimedMessage } from '../../../lib/persistence/outbox-statements';
import type { SendLimits, SendOutcome, Transport } from '../../../lib/transport/transport';
import { waitFor } from '../../support/wait-for';
import { DispatchSetup } from './dispatch-setup';

/** The real transport, except for what the test decides. */
class Interfering implements Transport {
  inFlight = 0;
  mostInFlight = 0;
  readonly keysInFlight = new Set<string>();
  readonly violations: string[] = [];
  readonly sent: ClaimedMessage[] = [];

  constructor(
    private readonly real: Transport,
    private readonly decide: (message: ClaimedMessage) => SendOutcome | undefined = () => undefined,
  ) {}

  availability = () => this.real.availability();
  onAvailable = (listener: () => void) => this.real.onAvailable(listener);
  close = () => this.real.close();

  async send(message: ClaimedMessage, limits: SendLimits): Promise<SendOutcome> {
    const { orderingKey: key } = message;
    if (key !== null && this.keysInFlight.has(key)) this.violations.push(`two of ${key} in flight`);
    if (key !== null) this.keysInFlight.add(key);
    this.mostInFlight = Math.max(this.mostInFlight, ++this.inFlight);
    const outcome = this.decide(message) ?? (await this.real.send(message, limits));
    this.inFlight--;
    if (key !== null) this.keysInFlight.delete(key);
    if (outcome.kind === 'sent') this.sent.push(message);
    return outcome;
  }
}

describe('The order of messages with one key', () => {
  let setup: DispatchSetup;
  let exchange: string;
  beforeAll(async () => {
    setup = await DispatchSetup.open();
    exchange = await setup.broker.assertExchange('ex');
  });
  afterEach(() => setup.reset());
  afterAll(() => setup?.close());

  const keyed = (routingKey: string, orderingKey: string | null, body: string) => ({
    exchange,
    routingKey,
    orderingKey,
    body,
  });

  it('C24: 50 messages of one transaction and one key arrive in the order in which they were published', async () => {
    const queue = await setup.queue('one-key', exchange);
    await setup.table.publish(
      ...Array.from({ length: 50 }, (_, n) => keyed('one-key', 'agg-1', String(n + 1))),
    );
    await setup.dispatcher().runOnce();
    const bodies = (await setup.broker.drain(queue)).map((each) => Number(each.content));
    expect(bodies).toEqual(Array.from({ length: 50 }, (_, n) => n + 1));
  });

  it('C24: a message that waits for its retry holds back its key, and no other', async () => {
    const queue = await setup.queue('wait', exchange);
    const [a1] = await setup.table.publish(
      keyed('not.yet', 'a', 'A1'),
      keyed('wait', 'a', 'A2'),
      keyed('wait', 'b', 'B1'),
    );
    const dispatcher = setup.dispatcher({ backoff: { initialDelay: 60_000 } });
    expect(await dispatcher.runOnce()).toMatchObject({ sent: 1, failed: 1, released: 1 });
    expect(await dispatcher.runOnce()).toMatchObject({ sent: 0, failed: 0 });
    expect((await setup.broker.drain(queue)).map((each) => each.content.toString())).toEqual(['B1']);

    await setup.broker.bind(queue, exchange, 'not.yet');
    await setup.database.query(
      'UPDATE outbox_message SET available_at = clock_timestamp() WHERE message_id = $1',
      [a1],
    );
    expect(await dispatcher.runOnce()).toMatchObject({ sent: 2 });
    expect((await setup.broker.drain(queue)).map((each) => each.content.toString())).toEqual(['A1', 'A2']);
  });

  it('G8: keeps the order of 20 keys while messages fail, are unknown or are published, and one of a key is in flight', async () => {
    const queue = await setup.queue('chaos', exchange);
    const total = 1_200;
    const random = mulberry(4711);
    const transport = new Interfering(setup.transport(), () => {
      const dice = random();
      if (dice < 0.03) return { kind: 'failed', error: 'dice' };
      return dice < 0.04 ? { kind: 'unknown', error: 'dice' } : undefined;
    });
    const dispatcher = setup.dispatcher(
      { batchSize: 100, maxInFlight: 50, maxAttempts: Infinity },
      {
        transport,
        retry: createRetryPolicy(Infinity, { initialDelay: 5, factor: 1, maxDelay: 5, jitter: 0 }),
      },
    );
    dispatcher.start();
    const collector = await setup.broker.collect(queue);
    for (let n = 0; n < total; n += 10) {
      await setup.table.publish(
        ...Array.from({ length: 10 }, (_, i) =>
          keyed('chaos', (n + i) % 5 ? `k${(n + i) % 20}` : null, String(n + i)),
        ),
      );
      dispatcher.notify();
    }
    await waitFor('the outbox to be empty', async () => (await setup.rows()).length === 0, {
      timeout: 40_000,
    });
    await collector.count(total);
    expect(transport.violations).toEqual([]);
    expect(transport.mostInFlight).toBeLessThanOrEqual(50);
    for (let key = 0; key < 20; key++) {
      if (key % 5 === 0) continue;
      const bodies = transport.sent
        .filter((each) => each.orderingKey === `k${key}`)
        .map(({ body }) => Number(body));
      expect(bodies).toEqual([...bodies].sort((a, b) => a - b));
      expect(bodies).toHaveLength(total / 20);
    }
    await collector.stop();
  });

  it('has many in flight over all keys, never more than maxInFlight, also for batches that are larger', async () => {
    await setup.queue('window', exchange);
    await setup.table.publish(...Array.from({ length: 900 }, (_, n) => keyed('window', null, String(n))));
    const transport = new Interfering(setup.transport());
    const dispatcher = setup.dispatcher({ batchSize: 400, maxInFlight: 64 }, { transport });
    expect(await dispatcher.runOnce()).toMatchObject({ sent: 900, end: 'idle' });
    expect(transport.mostInFlight).toBe(64);
    expect(await setup.rows()).toEqual([]);
  });

  it('C23: an open transaction with a lower sequence blocks nobody and is not forgotten', async () => {
    const queue = await setup.queue('late-commit', exchange);
    const runner = setup.table.dataSource.createQueryRunner();
    await runner.startTransaction();
    const message = (id: string) => ({
      ...keyed('late-commit', null, id),
      messageId: id,
      bodyEncoding: 'utf8' as const,
      headers: null,
      properties: null,
      deduplicationKey: null,
    });
    await setup.table.dialect.outbox.insert(runner, [message('A')]);
    await setup.table.publish(message('B'));
    const dispatcher = setup.dispatcher();
    const before = performance.now();
    expect(await dispatcher.runOnce()).toMatchObject({ sent: 1 });
    // A pass that waits for the open transaction would not return at all.
    expect(performance.now() - before).toBeLessThan(5_000);
    expect((await setup.broker.drain(queue)).map((each) => each.properties.messageId as string)).toEqual([
      'B',
    ]);
    await runner.commitTransaction();
    await runner.release();
    expect(await dispatcher.runOnce()).toMatchObject({ sent: 1 });
    expect((await setup.broker.drain(queue)).map((each) => each.properties.messageId as string)).toEqual([
      'A',
    ]);
  });

  it('an expired message is dead at once, with the reason, and holds nothing back', async () => {
    const queue = await setup.queue('expired', exchange);
    const [old] = await setup.table.publish(
      { ...keyed('expired', 'k', 'old'), expiresAt: new Date(Date.now() - 1_000) },
      keyed('expired', 'k', 'new'),
    );
    expect(await setup.dispatcher().runOnce()).toMatchObject({ sent: 1, dead: 1 });
    expect(await setup.rows()).toEqual([
      expect.objectContaining({
        message_id: old,
        status: 'dead',
        last_error: expect.stringContaining('Expired'),
      }),
    ]);
    expect((await setup.broker.drain(queue)).map((each) => each.content.toString())).toEqual(['new']);
  });

  it('C25: 10,000 dead rows do not delay ten that are due', async () => {
    const queue = await setup.queue('after-dead', exchange);
    await setup.database.query(
      `INSERT INTO outbox_message (message_id, exchange, routing_key, body, status, attempts)
       SELECT 'dead-' || n, 'x', 'y', '', 'dead', 10 FROM generate_series(1, 10000) AS n`,
    );
    await setup.table.publish(...Array.from({ length: 10 }, () => keyed('after-dead', null, '1')));
    expect(await setup.dispatcher().runOnce()).toMatchObject({ sent: 10 });
    expect(await setup.broker.drain(queue)).toHaveLength(10);
  });
});

/** Random numbers that a failing run can be repeated with. */
function mulberry(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}
