import type { ConfirmChannel } from 'amqplib';
import { DispatchSetup } from './dispatch-setup';
import { waitFor } from '../../support/wait-for';

describe('A message that closes the channel', () => {
  let setup: DispatchSetup;
  let exchange: string;
  beforeAll(async () => {
    setup = await DispatchSetup.open();
    exchange = await setup.broker.assertExchange('ex');
  });
  afterEach(() => setup.reset());
  afterAll(() => setup?.close());

  it('C33: only the row with the missing exchange fails; neighbours are sent, consumers and connection stay', async () => {
    const queue = await setup.queue('neighbours', exchange);
    const appQueue = await setup.broker.assertQueue('app');
    let deliveries = 0;
    const consumer = setup.amqp.managedConnection.createChannel({
      setup: async (channel: ConfirmChannel) => {
        await channel.consume(appQueue, () => void deliveries++, { noAck: true });
      },
    });
    await consumer.waitForConnect();
    let disconnects = 0;
    setup.amqp.managedConnection.on('disconnect', () => void disconnects++);

    const ids = await setup.table.publish(
      ...Array.from({ length: 20 }, (_, n) => ({
        exchange: n === 9 ? setup.broker.exchange('gone') : exchange,
        routingKey: 'neighbours',
        body: String(n),
      })),
    );
    const dispatcher = setup.dispatcher({ maxAttempts: 3, backoff: { initialDelay: 50, jitter: 0 } });
    dispatcher.start();
    const poison = await waitFor('the poison row to be dead', async () => {
      const row = await setup.row(ids[9]!);
      return row?.status === 'dead' && row;
    });
    expect(poison).toMatchObject({ attempts: 3, last_error: expect.stringContaining("no exchange '") });
    expect(await setup.rows()).toHaveLength(1);

    const arrived = (await setup.broker.drain(queue)).map((each) => each.properties.messageId as string);
    expect(new Set(arrived)).toEqual(new Set(ids.filter((_, n) => n !== 9)));
    expect(disconnects).toBe(0);
    await setup.broker.sendToQueue(appQueue, 'still there?');
    await waitFor('the consumer of the app to get its message', () => deliveries === 1);
    await consumer.close();
  });

  it('C33: of several that are unknown to the broker by nothing but a closed channel, the guilty one is found', async () => {
    const queue = await setup.queue('mixed', exchange);
    // A foreign user id: 406, and the broker names neither the message nor its exchange.
    const ids = await setup.table.publish(
      ...Array.from({ length: 20 }, (_, n) => ({
        exchange,
        routingKey: 'mixed',
        body: String(n),
        properties: n === 4 || n === 13 ? '{"userId":"somebody-else"}' : null,
      })),
    );
    const dispatcher = setup.dispatcher({ maxAttempts: 2, backoff: { initialDelay: 60_000 } });
    expect(await dispatcher.runOnce()).toMatchObject({ sent: 18, failed: 2, unknown: 0 });
    const rows = await setup.rows();
    expect(rows.map((row) => row.message_id)).toEqual([ids[4], ids[13]]);
    for (const row of rows) {
      expect(row).toMatchObject({ attempts: 1, last_error: expect.stringContaining('user_id') });
    }
    const arrived = (await setup.broker.drain(queue)).map((each) => each.properties.messageId as string);
    expect(new Set(arrived)).toEqual(new Set(ids.filter((_, n) => n !== 4 && n !== 13)));
  });

  it('C33: a message that cannot be encoded fails alone, and the confirms of others are not mixed up', async () => {
    const queue = await setup.queue('encode', exchange);
    const full = await setup.queue('encode-full', exchange, {
      arguments: { 'x-max-length': 1, 'x-overflow': 'reject-publish' },
    });
    await setup.broker.sendToQueue(full, 'holds the only place');
    const broken = { headers: '{"when":{"!":"no-such-type","value":1}}' };
    const ids = await setup.table.publish(
      { exchange, routingKey: 'encode' },
      { exchange, routingKey: 'encode', ...broken },
      { exchange, routingKey: 'encode-full' },
      { exchange, routingKey: 'encode' },
      { exchange, routingKey: 'encode', ...broken },
      { exchange, routingKey: 'encode' },
    );
    expect(await setup.dispatcher({ backoff: { initialDelay: 60_000 } }).runOnce()).toMatchObject({
      sent: 3,
      failed: 3,
      unknown: 0,
    });
    const rows = await setup.rows();
    expect(rows.map((row) => row.message_id)).toEqual([ids[1], ids[2], ids[4]]);
    expect(rows.map((row) => /Cannot be sent|nacked/.exec(row.last_error ?? '')?.[0])).toEqual([
      'Cannot be sent',
      'nacked',
      'Cannot be sent',
    ]);
    const arrived = (await setup.broker.drain(queue)).map((each) => each.properties.messageId as string);
    expect(arrived.sort()).toEqual([ids[0], ids[3], ids[5]].sort());
  });

  it('C33: a body of 1 MiB arrives byte for byte', async () => {
    const queue = await setup.queue('large', exchange);
    const body = Buffer.alloc(1_048_576, 'x').fill('ü', 100, 10_000);
    await setup.table.publish({
      exchange,
      routingKey: 'large',
      body: body.toString('base64'),
      bodyEncoding: 'base64',
    });
    expect(await setup.dispatcher().runOnce()).toMatchObject({ sent: 1 });
    expect((await setup.broker.get(queue))?.content.equals(body)).toBe(true);
  });

  it('C25: a thousand old rows for a missing exchange keep nobody waiting', async () => {
    const queue = await setup.queue('behind', exchange);
    const gone = setup.broker.exchange('gone');
    await setup.table.publish(
      ...Array.from({ length: 1_000 }, () => ({ exchange: gone, routingKey: 'behind' })),
      ...Array.from({ length: 20 }, () => ({ exchange, routingKey: 'behind' })),
    );
    const collector = await setup.broker.collect(queue);
    const dispatcher = setup.dispatcher({ batchSize: 100, maxAttempts: 5, backoff: { initialDelay: '1s' } });
    dispatcher.start();
    // In half a second on an idle machine; the bad ones have 15 s until they are dead.
    await collector.count(20, { timeout: 12_000 });
    const [dead] = await setup.database.query(
      "SELECT count(*)::int AS n FROM outbox_message WHERE status = 'dead'",
    );
    expect(dead).toEqual({ n: 0 });
    await collector.stop();
  });
});
