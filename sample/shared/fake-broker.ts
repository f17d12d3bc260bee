import * as fake from '@onify/fake-amqplib';
import type { ChannelModel } from 'amqplib';
import { createRequire } from 'node:module';

const load = createRequire(__filename);

/** Takes the place of `amqplib` in this process: nothing goes over a network. Install it before anything connects. */
export class FakeBroker {
  static readonly url = 'amqp://in-process';

  /** The demo's own. It stays open, since the fake forgets its queues with its last connection. */
  readonly connection: ChannelModel = fake.connectSync(FakeBroker.url);
  private readonly clients = new Set<ChannelModel>();
  private away = false;

  install(): void {
    load('amqplib');
    const loaded = load.cache[load.resolve('amqplib')];
    if (!loaded) throw new Error('amqplib is not in the module cache');
    loaded.exports = { ...fake, connect: (url: string) => this.connect(url) };
  }

  /** Staged outage: every connection is closed, and new ones are refused. */
  async goAway(): Promise<void> {
    this.away = true;
    for (const client of [...this.clients]) await client.close();
  }

  comeBack(): void {
    this.away = false;
  }

  private async connect(url: string): Promise<ChannelModel> {
    if (this.away) throw new Error('connect ECONNREFUSED (staged)');
    const client: ChannelModel = await fake.connect(url);
    this.clients.add(client);
    client.on('close', () => this.clients.delete(client));
    return client;
  }
}
