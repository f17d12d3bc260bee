import { ChannelModel, ConfirmChannel, Options } from 'amqplib';

/** The demo's own connection to the broker: sends copies, and replays what was rejected. */
export class BrokerClient {
  private constructor(private readonly channel: ConfirmChannel) {}

  static async connect(connection: ChannelModel): Promise<BrokerClient> {
    return new BrokerClient(await connection.createConfirmChannel());
  }

  async publish(
    exchange: string,
    routingKey: string,
    body: string | Buffer,
    properties: Options.Publish,
  ): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.channel.publish(exchange, routingKey, Buffer.from(body), properties, (error: unknown) =>
        error ? reject(new Error('The broker refused a copy', { cause: error })) : resolve(),
      );
    });
  }

  /** Sends everything in the dead-letter queue once more, under the same ids. Returns how many it were. */
  async replay(deadLetters: string, exchange: string, routingKey: string): Promise<number> {
    let replayed = 0;
    for (;;) {
      const message = await this.channel.get(deadLetters);
      if (!message) return replayed;
      await this.publish(exchange, routingKey, message.content, message.properties);
      this.channel.ack(message);
      replayed++;
    }
  }

  async waiting(queue: string): Promise<number> {
    return (await this.channel.checkQueue(queue)).messageCount;
  }

  async deleteAll(queues: string[], exchanges: string[]): Promise<void> {
    for (const queue of queues) await this.channel.deleteQueue(queue);
    for (const exchange of exchanges) await this.channel.deleteExchange(exchange);
  }
}
