import { alternate, atLeast } from '../harness/alternate';
import type { Contender, Measure, Sample } from '../harness/measure';
import { Program } from '../harness/program';
import { Sender } from '../harness/sender';
import { quantile } from '../harness/statistics';
import type { World } from '../harness/world';

const TRANSACTION = 'a transaction and no inbox';
const BY_HAND = 'the take statement by hand';
const INLINE = "@Idempotent(), processing 'inline'";
const DEFERRED = "@Idempotent(), processing 'deferred'";

interface Handled {
  readonly milliseconds: number;
  readonly waits: number[];
}

/** What the inbox costs a handler with one insert. */
export const inbox: Measure = {
  name: 'inbox',
  async run(world, { rounds, scale }) {
    const count = Math.round(5_000 * scale);
    return alternate({
      title: `Handling ${count} messages with one insert each, prefetch 50`,
      unit: 'msg/s',
      rounds,
      contenders: [
        await consumer(world, TRANSACTION, 'transaction', count),
        await consumer(world, BY_HAND, 'by hand', count),
        await consumer(world, INLINE, 'inline', count),
        await consumer(world, DEFERRED, 'deferred', count),
      ],
      bars: ({ ratio }) => [
        atLeast(BY_HAND, ratio(INLINE, BY_HAND), 0.92),
        atLeast(TRANSACTION, ratio(INLINE, TRANSACTION), 0.75),
        atLeast(`inline (${DEFERRED})`, ratio(DEFERRED, INLINE), 0.8),
      ],
    });
  },
};

/** From delivery to handled, at a rate that leaves room. */
export const inboxLatency: Measure = {
  name: 'inbox-latency',
  async run(world, { rounds, scale }) {
    const count = Math.round(1_500 * scale);
    return alternate({
      title: 'From sending to handled at 500 msg/s',
      unit: 'ms (median)',
      rounds,
      contenders: [
        await consumer(world, INLINE, 'inline', count, 500),
        await consumer(world, DEFERRED, 'deferred', count, 500),
      ],
      bars: ({ value }) => [
        { text: `< 10 ms: ${DEFERRED}`, value: value(DEFERRED), met: value(DEFERRED) < 10 },
      ],
    });
  },
};

/** @param rate messages per second; then the value is the median time in ms, otherwise messages per second */
export async function consumer(
  world: World,
  name: string,
  kind: string,
  count: number,
  rate?: number,
): Promise<Contender> {
  const label = kind.replace(' ', '-');
  const queue = await world.queue(label);
  const program = Program.start('programs/consumer.ts', {
    KIND: kind,
    QUEUE: queue,
    DATABASE: await world.database(label),
  });
  await program.call('ready');
  const sender = new Sender(world.channel);
  return {
    name,
    async run(): Promise<Sample> {
      const handled = program.call<Handled>('handled', { count });
      await (rate ? sender.steadily(queue, count, rate) : sender.burst(queue, count));
      const { milliseconds, waits } = await handled;
      // The last commit and whatever comes twice.
      await new Promise((resolve) => setTimeout(resolve, 200));
      const { total, distinct } = await program.call<{ total: number; distinct: number }>('takeEffects');
      return {
        value: rate ? quantile(waits, 0.5) : (count / milliseconds) * 1_000,
        lost: count - distinct,
        double: total - distinct,
      };
    },
    stop: () => program.stop(),
  };
}
