import { ChannelModel, ConfirmChannel, Options } from 'amqplib';

/** The demo's own connection to the broker: sends copies. */
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

  async deleteAll(queues: string[], exchanges: string[]): Promise<void> {
    for (const queue of queues) await this.channel.deleteQueue(queue);
    for (const exchange of exchanges) await this.channel.deleteExchange(exchange);
  }
}
