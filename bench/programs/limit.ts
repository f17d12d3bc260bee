import { randomUUID } from 'node:crypto';
import { type ConfirmChannel, connect } from 'amqplib';
import { body } from '../harness/body';
import { AMQP_URL } from '../harness/servers';
import { serve } from '../harness/serve';

/** The limit: amqplib alone, without a database. */
interface Publish {
  readonly queue: string;
  readonly count: number;
  /** Messages on the wire without a confirm. */
  readonly inFlight: number;
}

const opened = connect(AMQP_URL).then((connection) => connection.createConfirmChannel());

serve({
  async publish({ queue, count, inFlight }: Publish): Promise<number> {
    const channel = await opened;
    const bodies = Array.from({ length: count }, (_, n) => ({
      content: Buffer.from(JSON.stringify(body(n))),
      messageId: randomUUID(),
    }));
    const started = performance.now();
    await publishAll(channel, queue, bodies, inFlight);
    return performance.now() - started;
  },
});

function publishAll(
  channel: ConfirmChannel,
  queue: string,
  bodies: readonly { content: Buffer; messageId: string }[],
  inFlight: number,
): Promise<void> {
  return new Promise((resolve, reject) => {
    let next = 0;
    let confirmed = 0;
    const fill = () => {
      while (next < bodies.length && next - confirmed < inFlight) {
        const { content, messageId } = bodies[next++]!;
        const options = {
          persistent: true,
          mandatory: true,
          messageId,
          contentType: 'application/json',
          timestamp: Math.floor(Date.now() / 1_000),
        };
        channel.publish('', queue, content, options, (error: unknown) => {
          if (error) return reject(error instanceof Error ? error : new Error('not confirmed'));
          if (++confirmed === bodies.length) return resolve();
          fill();
        });
      }
    };
    fill();
  });
}
