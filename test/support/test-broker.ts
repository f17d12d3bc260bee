import { randomBytes } from 'node:crypto';
import { ChannelModel, ConfirmChannel, connect, GetMessage, Options } from 'amqplib';
import { Collector, startCollector } from './message-collector';
import { DrainOptions, QueueDepth, QueueWatch } from './queue-depth';
import { AMQP_URL } from './servers';

export interface TestBroker {
  readonly url: string;
  /** Unique start of all names of this test, for example `t-1a2b3c4d.`. */
  readonly prefix: string;
  /** For what the helpers below do not cover. */
  readonly channel: ConfirmChannel;
  /** `prefix + name`; deleted on close whoever declares it. A name that already has the prefix stays as it is. */
  queue(name: string): string;
  /** As `queue()`, for an exchange. */
  exchange(name: string): string;
  /** Declares `prefix + name` (durable) and returns the full name. */
  assertQueue(name: string, options?: Options.AssertQueue): Promise<string>;
  assertExchange(name: string, type?: string, options?: Options.AssertExchange): Promise<string>;
  bind(queue: string, exchange: string, routingKey?: string): Promise<void>;
  /** Sends JSON (a Buffer is sent as it is) and resolves after the broker's confirm. Persistent unless told otherwise. */
  publish(exchange: string, routingKey: string, payload: unknown, options?: Options.Publish): Promise<void>;
  sendToQueue(queue: string, payload: unknown, options?: Options.Publish): Promise<void>;
  /** Takes one message away, or `undefined` when none is ready. */
  get(queue: string): Promise<GetMessage | undefined>;
  /** Takes away all messages that are ready now. */
  drain(queue: string): Promise<GetMessage[]>;
  /** Consumes from now on and records everything that arrives. */
  collect(queue: string): Promise<Collector>;
  /** Messages ready, straight from AMQP: cheap enough to be asked in a loop. */
  ready(queue: string): Promise<number>;
  /** Ready and unacked; the first call starts a rabbitmqctl (a second, more on a busy machine). */
  queueDepth(queue: string): Promise<QueueDepth>;
  /** Waits until the queue holds nothing: neither ready nor unacked (see queue-depth.ts for how unacked is known). */
  drained(queue: string, options?: DrainOptions): Promise<void>;
  /** Deletes what has this prefix and was named here, then disconnects. May be called twice. */
  close(): Promise<void>;
}

export async function openTestBroker(url: string = AMQP_URL): Promise<TestBroker> {
  const prefix = `t-${randomBytes(4).toString('hex')}.`;
  const connection = await open(url, prefix);
  const channel = await connection.createConfirmChannel();
  channel.on('error', () => undefined);
  const queues = new Set<string>();
  const exchanges = new Set<string>();
  const remember = (names: Set<string>) => (name: string) => {
    const full = name.startsWith(prefix) ? name : prefix + name;
    names.add(full);
    return full;
  };
  const queue = remember(queues);
  const exchange = remember(exchanges);
  const watch = new QueueWatch(connection, url);

  const publish: TestBroker['publish'] = (target, routingKey, payload, options = {}) =>
    new Promise((resolve, reject) => {
      const body = Buffer.isBuffer(payload) ? payload : Buffer.from(JSON.stringify(payload));
      const properties = { persistent: true, contentType: 'application/json', ...options };
      channel.publish(target, routingKey, body, properties, (error: unknown) =>
        error
          ? reject(new Error(`The broker did not take a message for ${target}`, { cause: error }))
          : resolve(),
      );
    });
  const get: TestBroker['get'] = async (name) => (await channel.get(name, { noAck: true })) || undefined;

  let closing: Promise<void> | undefined;
  return {
    url,
    prefix,
    channel,
    queue,
    exchange,
    async assertQueue(name, options) {
      return (await channel.assertQueue(queue(name), { durable: true, ...options })).queue;
    },
    async assertExchange(name, type = 'topic', options = {}) {
      return (await channel.assertExchange(exchange(name), type, { durable: true, ...options })).exchange;
    },
    async bind(name, source, routingKey = '#') {
      await channel.bindQueue(name, source, routingKey);
    },
    publish,
    sendToQueue: (name, payload, options) => publish('', name, payload, options),
    get,
    async drain(name) {
      const taken: GetMessage[] = [];
      for (let message = await get(name); message; message = await get(name)) taken.push(message);
      return taken;
    },
    collect: (name) => startCollector(connection, name),
    ready: async (name) => (await watch.ready(name)).ready,
    queueDepth: (name) => watch.depth(name),
    drained: (name, options) => watch.drained(name, options),
    close() {
      watch.end();
      closing ??= tidyUp(connection, url, { queues, exchanges });
      return closing;
    },
  };
}

async function open(url: string, name: string): Promise<ChannelModel> {
  let connection: ChannelModel;
  try {
    connection = await connect(url, { clientProperties: { connection_name: `test-broker ${name}` } });
  } catch (cause) {
    throw new Error(`No RabbitMQ answers at ${new URL(url).host}; run "npm run services" or set AMQP_URL`, {
      cause,
    });
  }
  // A broker that a test stops or cuts off ends this connection too; without a listener that would end the process.
  connection.on('error', () => undefined);
  return connection;
}

/** On a connection of its own: the test may have lost the first one on purpose. */
async function tidyUp(
  first: ChannelModel,
  url: string,
  { queues, exchanges }: { queues: Set<string>; exchanges: Set<string> },
): Promise<void> {
  await disconnect(first);
  const connection = await open(url, 'clean-up');
  try {
    const channel = await connection.createChannel();
    // Deleting what is not there is no error in RabbitMQ.
    for (const name of queues) await channel.deleteQueue(name);
    for (const name of exchanges) await channel.deleteExchange(name);
  } finally {
    await connection.close();
  }
}

/** amqplib's close() never settles when the connection breaks while it waits for the broker's goodbye. */
async function disconnect(connection: ChannelModel): Promise<void> {
  const gone = new Promise<void>((resolve) => connection.once('close', () => resolve()));
  await Promise.race([gone, connection.close().catch(() => undefined)]);
}
