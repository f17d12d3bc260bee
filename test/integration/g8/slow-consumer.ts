import { setTimeout as sleep } from 'node:timers/promises';
import type { ConsumeMessage } from 'amqplib';
import type { TestBroker } from '../../support/test-broker';

/**
 * The receiving end, which stops now and then, so that the queue is full and the broker refuses what comes. One queue, one
 * consumer: what it sees is the order in which the broker has accepted.
 */
/** @param length of the queue, in messages that are ready */
export async function startSlowConsumer(
  broker: TestBroker,
  { queue, length }: { queue: string; length: number },
  over: () => boolean,
) {
  const firsts = new Set<string>();
  let deliveries = 0;
  let holding = false;
  const held: ConsumeMessage[] = [];
  const { channel } = broker;
  await channel.prefetch(50);
  await channel.consume(queue, (message) => {
    if (!message) return;
    deliveries++;
    firsts.add(String(message.properties.messageId));
    if (holding) held.push(message);
    else channel.ack(message);
  });
  const pauses = (async () => {
    while (!over()) {
      await sleep(500);
      holding = true;
      // Until the broker refuses; at the end of the traffic it no longer has to.
      const deadline = performance.now() + 2_000;
      while (!over() && performance.now() < deadline && (await broker.ready(queue)) < length) await sleep(10);
      await sleep(100);
      holding = false;
      for (const message of held.splice(0)) channel.ack(message);
    }
  })();
  return {
    /** Ids in the order of their first delivery. */
    firsts,
    get deliveries() {
      return deliveries;
    },
    end: () => pauses,
  };
}
