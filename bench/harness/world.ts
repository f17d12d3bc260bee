import { randomBytes } from 'node:crypto';
import { type ChannelModel, type ConfirmChannel, connect } from 'amqplib';
import { Client } from 'pg';
import { AMQP_URL, DATABASE_URL } from './servers';

/** What has arrived on a queue. */
export interface Arrived {
  readonly total: number;
  readonly distinct: number;
}

/** Databases and queues of one measure; `close()` removes all of them. */
export class World {
  private readonly databases: string[] = [];
  private readonly queues: string[] = [];
  private readonly clients: Client[] = [];
  readonly prefix = `bench-${randomBytes(3).toString('hex')}`;

  private constructor(
    private readonly server: Client,
    private readonly connection: ChannelModel,
    readonly channel: ConfirmChannel,
  ) {}

  static async open(): Promise<World> {
    const server = new Client({ connectionString: DATABASE_URL });
    await server.connect();
    const connection = await connect(AMQP_URL);
    return new World(server, connection, await connection.createConfirmChannel());
  }

  /** A database of its own. @returns its URL */
  async database(name: string): Promise<string> {
    const full = `${this.prefix}-${name}`;
    await this.server.query(`CREATE DATABASE "${full}" TEMPLATE template0`);
    this.databases.push(full);
    const url = new URL(DATABASE_URL);
    url.pathname = `/${full}`;
    return url.href;
  }

  async sql(url: string): Promise<Client> {
    const client = new Client({ connectionString: url });
    await client.connect();
    this.clients.push(client);
    return client;
  }

  /** A durable classic queue, reached by the default exchange. @returns its name */
  async queue(name: string): Promise<string> {
    const full = `${this.prefix}-${name}`;
    await this.channel.assertQueue(full, { durable: true });
    this.queues.push(full);
    return full;
  }

  /** Takes everything off a queue and counts it, until `expected` messages are there or nothing comes for ten seconds. */
  async take(queue: string, expected: number): Promise<Arrived> {
    const channel = await this.connection.createChannel();
    const ids = new Set<string>();
    let total = 0;
    let last = performance.now();
    const { consumerTag } = await channel.consume(
      queue,
      (message) => {
        total++;
        last = performance.now();
        if (message) ids.add(String(message.properties.messageId));
      },
      { noAck: true },
    );
    // A duplicate may still be on its way, so a moment longer than until the expected number is there.
    while (performance.now() - last < (total < expected ? 10_000 : 50)) {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    await channel.cancel(consumerTag);
    await channel.close();
    return { total, distinct: ids.size };
  }

  async close(): Promise<void> {
    for (const client of this.clients) await client.end();
    for (const queue of this.queues) await this.channel.deleteQueue(queue);
    await this.connection.close();
    for (const name of this.databases) await this.server.query(`DROP DATABASE "${name}" WITH (FORCE)`);
    await this.server.end();
  }
}
