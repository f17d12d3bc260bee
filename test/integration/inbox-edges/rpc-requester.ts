import { randomUUID } from 'node:crypto';
import type { Channel } from 'amqplib';
import type { TestBroker } from '../../support/test-broker';
import { waitFor } from '../../support/wait-for';

export interface Reply {
  readonly body: Buffer;
  readonly headers: Record<string, unknown>;
}

export interface RequestOptions {
  readonly messageId?: string;
  readonly headers?: Record<string, unknown>;
}

/** Sends RPC requests with direct reply-to, and sees the replies as they are on the wire. */
export class RpcRequester {
  private readonly replies = new Map<string, Reply[]>();

  private constructor(private readonly broker: TestBroker) {}

  static async open(broker: TestBroker): Promise<RpcRequester> {
    const requester = new RpcRequester(broker);
    await broker.channel.consume('amq.rabbitmq.reply-to', (message) => requester.receive(message), {
      noAck: true,
    });
    return requester;
  }

  /** @returns under which {@link repliesTo} finds the replies */
  async send(queue: string, payload: unknown, options: RequestOptions = {}): Promise<string> {
    const correlationId = randomUUID();
    await this.broker.publish('amq.direct', queue, payload, {
      ...options,
      correlationId,
      replyTo: 'amq.rabbitmq.reply-to',
    });
    return correlationId;
  }

  repliesTo(correlationId: string): Reply[] {
    return this.replies.get(correlationId) ?? [];
  }

  async reply(correlationId: string): Promise<Reply> {
    return waitFor('a reply', () => this.repliesTo(correlationId)[0]);
  }

  async request(queue: string, payload: unknown, options?: RequestOptions): Promise<Reply> {
    return this.reply(await this.send(queue, payload, options));
  }

  private receive(message: Parameters<Parameters<Channel['consume']>[1]>[0]): void {
    if (!message) return;
    const id = String(message.properties.correlationId);
    const reply = { body: message.content, headers: { ...message.properties.headers } };
    this.replies.set(id, [...this.repliesTo(id), reply]);
  }
}

export const json = ({ body }: Reply): unknown => JSON.parse(body.toString());
