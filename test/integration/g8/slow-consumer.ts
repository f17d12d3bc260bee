import { setTimeout as sleep } from 'node:timers/promises';
import type { ConsumeMessage } from 'amqplib';
import type { TestBroker } from '../../support/test-broker';

/**
 * The receiving end, which stops now and then, so that the queue is full and the broker refuses what comes. One queue, one
 * consumer: what it sees is the order in which the broker has accepted.
 */
export async function startSlowConsumer(broker: TestBroker, queue: string, over: () => boolean) {
  const firsts = new Set<string>();
  let deliveries = 0;
  let holding = false;
  const held: ConsumeMessage[] = [];
  const { channel } = broker;
  await channel.prefetch(100);
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
      await sleep(250);
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
