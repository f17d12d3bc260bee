import { connect } from 'amqplib';
import { createTestDatabase, TestDatabase } from '../../support/test-database';
import { openTestBroker, TestBroker } from '../../support/test-broker';
import { DATABASE_URL } from '../../support/servers';
import { startTcpProxy } from '../../support/tcp-proxy';
import { waitFor } from '../../support/wait-for';
import { Client } from 'pg';

describe('createTestDatabase', () => {
  it('gives each caller a database of its own, and drops it while others are connected', async () => {
    const [one, two] = await Promise.all([createTestDatabase(), createTestDatabase({ prefix: 'Other' })]);
    await one.query('CREATE TABLE mine (id int); INSERT INTO mine VALUES (1), (2)');
    expect(await one.query('SELECT id FROM mine WHERE id > $1', [1])).toEqual([{ id: 2 }]);
    await expect(two.query('SELECT * FROM mine')).rejects.toThrow('does not exist');
    expect(one.serverVersion).toMatch(/^\d+\.\d+/);
    expect(two.name).toMatch(/^other_/);

    const straggler = new Client({ connectionString: one.url });
    const thrownOut = new Promise((resolve) => straggler.on('error', resolve));
    await straggler.connect();
    await Promise.all([one.close(), one.close(), two.close()]);
    expect(await thrownOut).toMatchObject({ code: '57P01' });
    expect(await databases(one, two)).toEqual([]);
  });

  it('says what to do when no server answers', async () => {
    const proxy = await startTcpProxy(DATABASE_URL);
    await proxy.refuse();
    await expect(createTestDatabase({ serverUrl: proxy.through(DATABASE_URL) })).rejects.toThrow(
      'npm run services',
    );
  });
});

async function databases(...wanted: TestDatabase[]): Promise<unknown[]> {
  const client = new Client({ connectionString: DATABASE_URL });
  await client.connect();
  const names = wanted.map(({ name }) => name);
  const { rows } = await client.query<{ datname: string }>(
    'SELECT datname FROM pg_database WHERE datname = ANY($1)',
    [names],
  );
  await client.end();
  return rows;
}

describe('openTestBroker', () => {
  let broker: TestBroker;
  beforeEach(async () => {
    broker = await openTestBroker();
  });
  afterEach(() => broker.close());

  async function route(): Promise<{ queue: string; exchange: string }> {
    const queue = await broker.assertQueue('queue');
    const exchange = await broker.assertExchange('exchange');
    await broker.bind(queue, exchange, 'claim.*');
    return { queue, exchange };
  }

  it('names, publishes, gets and drains', async () => {
    const { queue, exchange } = await route();
    expect(queue).toBe(`${broker.prefix}queue`);
    await broker.publish(exchange, 'claim.reported', { number: 4711 }, { messageId: 'a' });
    await broker.publish(exchange, 'other', {});
    await broker.sendToQueue(queue, Buffer.from('raw'), { messageId: 'b' });
    await broker.sendToQueue(queue, null, { messageId: 'c' });
    expect(await broker.queueDepth(queue)).toMatchObject({ ready: 3, consumers: 0 });
    const first = await broker.get(queue);
    expect(first?.properties).toMatchObject({ messageId: 'a', deliveryMode: 2 });
    expect((await broker.drain(queue)).map((message) => message.content.toString())).toEqual(['raw', 'null']);
    expect(await broker.get(queue)).toBeUndefined();
  });

  it('rejects a publish to an exchange that is not there', async () => {
    await expect(broker.publish(broker.exchange('missing'), 'x', {})).rejects.toThrow(
      'did not take a message',
    );
  });

  it('collects what arrives', async () => {
    const { queue, exchange } = await route();
    const collector = await broker.collect(queue);
    for (const number of [1, 2, 3])
      await broker.publish(exchange, 'claim.x', { number }, { messageId: `m${number}` });
    await collector.count(3);
    expect(collector.messageIds).toEqual(['m1', 'm2', 'm3']);
    expect(collector.json()).toEqual([{ number: 1 }, { number: 2 }, { number: 3 }]);
    await expect(collector.count(4, { timeout: 50 })).rejects.toThrow('3 so far');
  });

  it('does not take a queue for drained while a message is unacked', async () => {
    const { queue } = await route();
    await broker.sendToQueue(queue, {});
    const connection = await connect(broker.url);
    const consumer = await connection.createChannel();
    const delivered = new Promise<void>((resolve) => {
      void consumer.consume(queue, () => resolve());
    });
    await delivered;
    const idle = jest.fn(() => false);
    await expect(broker.drained(queue, { idle, timeout: 300 })).rejects.toThrow('still busy');

    const { unacked } = await broker.queueDepth(queue);
    // Not every machine may ask its broker; where it may, the answer must be right.
    if (unacked !== undefined) {
      expect(unacked).toBe(1);
      await expect(broker.drained(queue, { timeout: 5_000 })).rejects.toThrow('"unacked":1');
    }
    consumer.ackAll();
    await broker.drained(queue, unacked === undefined ? { idle: () => true } : {});
    await connection.close();
  });

  it('deletes what it named, although its own connection was cut', async () => {
    const proxy = await startTcpProxy(broker.url);
    const other = await openTestBroker(proxy.through(broker.url));
    const queue = await other.assertQueue('left-over');
    const declaredElsewhere = other.queue('by-the-app');
    await broker.channel.assertQueue(declaredElsewhere, { durable: true });
    proxy.cut();
    await waitFor('the connection to be gone', () => proxy.connections() === 0);
    await Promise.all([other.close(), other.close()]);
    await proxy.close();
    for (const name of [queue, declaredElsewhere]) {
      await expect(broker.queueDepth(name)).rejects.toThrow('NOT_FOUND');
    }
  });
});
