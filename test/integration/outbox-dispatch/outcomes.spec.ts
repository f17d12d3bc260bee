import { randomUUID } from 'node:crypto';
import { DispatchSetup } from './dispatch-setup';

describe('What the broker says decides what becomes of a message', () => {
  let setup: DispatchSetup;
  let exchange: string;
  beforeAll(async () => {
    setup = await DispatchSetup.open();
    exchange = await setup.broker.assertExchange('ex');
  });
  afterEach(() => setup.reset());
  afterAll(() => setup?.close());

  it('sends what is due and forgets it after the confirm', async () => {
    const queue = await setup.queue('plain', exchange);
    const [id] = await setup.table.publish({
      exchange,
      routingKey: 'plain',
      body: '{"claim":"4711"}',
      headers: '{"x":1}',
      properties: '{"contentType":"application/json"}',
    });
    expect(await setup.dispatcher().runOnce()).toEqual({
      end: 'idle',
      sent: 1,
      failed: 0,
      dead: 0,
      unknown: 0,
      released: 0,
    });
    expect(await setup.rows()).toEqual([]);
    const message = await setup.broker.get(queue);
    expect(message?.content.toString()).toBe('{"claim":"4711"}');
    expect(message?.properties).toMatchObject({
      messageId: id,
      deliveryMode: 2,
      contentType: 'application/json',
      headers: { x: 1 },
    });
    expect(Math.abs(Number(message?.properties.timestamp) - Date.now() / 1_000)).toBeLessThan(10);
  });

  it('C32: tells sent from returned, nacked and equal bodies, by message id', async () => {
    const good = await setup.queue('good', exchange);
    const full = await setup.queue('full', exchange, {
      arguments: { 'x-max-length': 1, 'x-overflow': 'reject-publish' },
    });
    await setup.broker.sendToQueue(full, 'holds the only place');
    const to = (routingKey: string, body = JSON.stringify(randomUUID())) => ({ exchange, routingKey, body });
    const same = '{"same":"body"}';
    const ids = await setup.table.publish(
      to('good'),
      to('no.such.key'),
      to('good'),
      to('good', same),
      to('other.such.key', same),
      to('full'),
      to('good'),
      to('good'),
      to('good'),
    );
    const dispatcher = setup.dispatcher({ backoff: { initialDelay: 60_000 } });
    const counts = await dispatcher.runOnce();
    expect(counts).toMatchObject({ sent: 6, failed: 3 });

    const left = await setup.rows();
    expect(left.map((row) => row.message_id)).toEqual([ids[1], ids[4], ids[5]]);
    expect(left[0]).toMatchObject({
      status: 'scheduled',
      attempts: 1,
      last_error: expect.stringContaining('NO_ROUTE'),
    });
    expect(left[1]).toMatchObject({
      status: 'scheduled',
      attempts: 1,
      last_error: expect.stringContaining('NO_ROUTE'),
    });
    expect(left[2]).toMatchObject({
      status: 'scheduled',
      attempts: 1,
      last_error: expect.stringContaining('nacked'),
    });

    const late = await setup.broker.assertQueue('late');
    await setup.broker.bind(late, exchange, '*.such.key');
    await setup.broker.drain(full);
    await setup.database.query('UPDATE outbox_message SET available_at = clock_timestamp()');
    expect(await dispatcher.runOnce()).toMatchObject({ sent: 3 });
    expect(await setup.rows()).toEqual([]);
    expect((await setup.broker.drain(late)).map((each) => each.properties.messageId as string)).toEqual([
      ids[1],
      ids[4],
    ]);
    expect(await setup.broker.drain(good)).toHaveLength(6);
  });
});
