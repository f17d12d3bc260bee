import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { ConfirmChannel } from 'amqplib';

/** Messages of 200 bytes with the time at which they were sent. */
export class Sender {
  constructor(private readonly channel: ConfirmChannel) {}

  /** As fast as the broker takes them. */
  async burst(queue: string, count: number): Promise<void> {
    for (let n = 0; n < count; n++) this.send(queue);
    await this.channel.waitForConfirms();
  }

  /** @param rate messages per second */
  async steadily(queue: string, count: number, rate: number): Promise<void> {
    const started = performance.now();
    for (let n = 0; n < count;) {
      const due = Math.min(count, Math.ceil(((performance.now() - started) / 1_000) * rate));
      for (; n < due; n++) this.send(queue);
      await delay(1);
    }
    await this.channel.waitForConfirms();
  }

  private send(queue: string): void {
    const id = randomUUID();
    const content = { id, sentAt: Number(process.hrtime.bigint()) / 1e6, pad: '' };
    content.pad = 'x'.repeat(200 - JSON.stringify(content).length);
    this.channel.publish('', queue, Buffer.from(JSON.stringify(content)), {
      persistent: true,
      messageId: id,
      contentType: 'application/json',
    });
  }
}
