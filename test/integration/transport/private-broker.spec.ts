import { DispatchSetup } from '../outbox-dispatch/dispatch-setup';
import { type PrivateBroker, startPrivateBroker } from '../../support/private-broker';
import { openTestBroker } from '../../support/test-broker';
import { waitFor } from '../../support/wait-for';

/** What only a broker of one's own can be made to do. */
describe('The transport and a broker in trouble', () => {
  let broker: PrivateBroker;
  let setup: DispatchSetup;
  let exchange: string;
  beforeAll(async () => {
    broker = await startPrivateBroker({ config: 'max_message_size = 1048576' });
    setup = await DispatchSetup.open({ brokerUrl: broker.url });
    exchange = await setup.broker.assertExchange('ex');
  }, 120_000);
  afterEach(() => setup.reset());
  afterAll(async () => {
    await setup?.close().catch(() => undefined);
    await broker?.close();
  });

  it('C33: a body over the limit of the broker fails alone; a body at the limit and the neighbours arrive', async () => {
    const queue = await setup.queue('size', exchange);
    const disconnects: string[] = [];
    const count = ({ err }: { err: Error }) => void disconnects.push(String(err));
    setup.amqp.managedConnection.on('disconnect', count);
    const sized = (bytes: number) => ({ exchange, routingKey: 'size', body: 'x'.repeat(bytes) });
    const ids = await setup.table.publish(
      ...Array.from({ length: 9 }, () => sized(10)),
      sized(3 * 1_048_576),
      sized(1_048_576),
      ...Array.from({ length: 9 }, () => sized(10)),
    );
    const dispatcher = setup.dispatcher({ maxAttempts: 3, backoff: { initialDelay: 50, jitter: 0 } });
    dispatcher.start();
    const poison = await waitFor('the poison row to be dead', async () => {
      const row = await setup.row(ids[9]!);
      return row?.status === 'dead' && row;
    });
    expect(poison).toMatchObject({ attempts: 3, last_error: expect.stringContaining('max size') });
    await waitFor('the others to be sent', async () => (await setup.rows()).length === 1);
    const arrived = await setup.broker.drain(queue);
    expect(new Set(arrived.map((each) => each.properties.messageId as string))).toEqual(
      new Set(ids.filter((_, n) => n !== 9)),
    );
    expect(arrived.some((each) => each.content.length === 1_048_576)).toBe(true);
    expect(disconnects).toEqual([]);
    setup.amqp.managedConnection.off('disconnect', count);
  });

  it('C33: a channel that is closed while large bodies still wait to be written costs no connection', async () => {
    const queue = await setup.queue('rest', exchange);
    const disconnects: string[] = [];
    const note = ({ err }: { err: Error }) => void disconnects.push(String(err));
    setup.amqp.managedConnection.on('disconnect', note);
    const sized = (bytes: number) => ({ exchange, routingKey: 'rest', body: 'x'.repeat(bytes) });
    const dispatcher = setup.dispatcher({ backoff: { initialDelay: 60_000 } });
    for (let round = 0; round < 3; round++) {
      await setup.table.publish(sized(8 * 1_048_576), ...Array.from({ length: 25 }, () => sized(1_000_000)));
      expect(await dispatcher.runOnce()).toMatchObject({ sent: 25, failed: 1 });
      await setup.broker.channel.purgeQueue(queue);
    }
    expect(disconnects).toEqual([]);
    setup.amqp.managedConnection.off('disconnect', note);
  });

  it('C35: under a memory alarm nothing is lost, failed or held in a transaction; it resumes when the alarm ends', async () => {
    const queue = await setup.queue('alarm', exchange);
    const options = { publishTimeout: 300, lease: 2_000, pollInterval: 100 };
    setup.dispatcher(options).start();
    try {
      await broker.ctl('set_vm_memory_high_watermark', '0.000001');
      const ids = await setup.table.publish(
        ...Array.from({ length: 20 }, () => ({ exchange, routingKey: 'alarm' })),
      );
      let blocked = false;
      setup.amqp.managedConnection.once('blocked', () => (blocked = true));
      await waitFor('the broker to block the connection', () => blocked);
      await waitFor('all claims to be given back', async () =>
        (await setup.rows()).every((row) => row.claim_token === null),
      );
      const before = performance.now();
      await setup.table.publish({ exchange, routingKey: 'alarm', messageId: 'during' });
      expect(performance.now() - before).toBeLessThan(1_000);
      const idle = await setup.database.query(
        "SELECT 1 FROM pg_stat_activity WHERE datname = $1 AND state = 'idle in transaction'",
        [setup.database.name],
      );
      expect(idle).toEqual([]);
      for (const row of await setup.rows()) expect(row).toMatchObject({ attempts: 0, status: 'ready' });
      await broker.ctl('set_vm_memory_high_watermark', '0.4');
      await waitFor('all to be sent', async () => (await setup.rows()).length === 0);
      const arrived = (await setup.broker.drain(queue)).map((each) => each.properties.messageId as string);
      expect(new Set(arrived)).toEqual(new Set([...ids, 'during']));
    } finally {
      await broker.ctl('set_vm_memory_high_watermark', '0.4');
    }
  });

  it('C35: a stop under a memory alarm ends in its time and gives everything back', async () => {
    await setup.queue('alarm-stop', exchange);
    const dispatcher = setup.dispatcher({ pollInterval: 100 });
    dispatcher.start();
    try {
      await broker.ctl('set_vm_memory_high_watermark', '0.000001');
      await setup.table.publish(
        ...Array.from({ length: 20 }, () => ({ exchange, routingKey: 'alarm-stop' })),
      );
      await waitFor('all to be claimed', async () =>
        (await setup.rows()).every((row) => row.claim_token !== null),
      );
      const before = performance.now();
      await dispatcher.stop({ timeout: 500 });
      expect(performance.now() - before).toBeLessThan(5_000);
      for (const row of await setup.rows()) expect(row).toMatchObject({ attempts: 0, claim_token: null });
    } finally {
      await broker.ctl('set_vm_memory_high_watermark', '0.4');
    }
  });

  it('C36: while the broker is stopped nothing is taken for sent; afterwards all arrives and consumers are back', async () => {
    const queue = await setup.queue('restart', exchange, { durable: true });
    const dispatcher = setup.dispatcher({ publishTimeout: 500, lease: 5_000, maxInFlight: 10 });
    dispatcher.start();
    const ids = await setup.table.publish(
      ...Array.from({ length: 50 }, () => ({ exchange, routingKey: 'restart' })),
    );
    await broker.stopApp();
    await waitFor('all claims to be given back', async () =>
      (await setup.rows()).every((row) => row.claim_token === null),
    );
    await setup.table.publish({ exchange, routingKey: 'restart', messageId: 'late' });
    for (const row of await setup.rows()) expect(row).toMatchObject({ attempts: 0, status: 'ready' });
    await broker.startApp();
    await waitFor('all to be sent', async () => (await setup.rows()).length === 0);
    const fresh = await openTestBroker(broker.url);
    const arrived = (await fresh.drain(queue)).map((each) => each.properties.messageId as string);
    await fresh.close();
    expect(new Set(arrived)).toEqual(new Set([...ids, 'late']));
  });
});
