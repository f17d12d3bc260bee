import { ChannelModel, ConsumeMessage } from 'amqplib';
import { waitFor, WaitOptions } from './wait-for';

export interface Collector {
  /** All that arrived, in the order of arrival, duplicates too. */
  readonly messages: ConsumeMessage[];
  readonly messageIds: unknown[];
  /** The bodies, read as JSON. */
  json<T = unknown>(): T[];
  /** Waits until at least this many have arrived. */
  count(atLeast: number, options?: WaitOptions): Promise<ConsumeMessage[]>;
  stop(): Promise<void>;
}

/** Takes everything off a queue and records it: the receiving end of a test. */
export async function startCollector(connection: ChannelModel, queue: string): Promise<Collector> {
  const channel = await connection.createChannel();
  channel.on('error', () => undefined);
  const messages: ConsumeMessage[] = [];
  await channel.consume(
    queue,
    (message) => {
      if (message) messages.push(message);
    },
    { noAck: true },
  );
  return {
    messages,
    get messageIds() {
      return messages.map((message) => message.properties.messageId as unknown);
    },
    json: <T>() => messages.map((message) => JSON.parse(message.content.toString()) as T),
    async count(atLeast, options) {
      await waitFor(
        `${atLeast} messages from ${queue}`,
        () => messages.length >= atLeast || Promise.reject(new Error(`${messages.length} so far`)),
        options,
      );
      return messages;
    },
    stop: () => channel.close().catch(() => undefined),
  };
}
