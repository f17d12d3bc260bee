import { alternate, atLeast } from '../harness/alternate';
import type { Contender, Measure, Sample } from '../harness/measure';
import { Program } from '../harness/program';
import { Sender } from '../harness/sender';
import { quantile } from '../harness/statistics';
import type { World } from '../harness/world';

const TRANSACTION = 'a transaction and no inbox';
const BY_HAND = 'the take statement by hand';
const INLINE = "@Idempotent(), processing 'inline'";
const BATCHES = '@Idempotent(), batches of 100';
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
        await consumer(world, { name: TRANSACTION, kind: 'transaction', count }),
        await consumer(world, { name: BY_HAND, kind: 'by hand', count }),
        await consumer(world, { name: INLINE, kind: 'inline', count }),
        await consumer(world, { name: DEFERRED, kind: 'deferred', count }),
      ],
      bars: ({ ratio }) => [
        atLeast(BY_HAND, ratio(INLINE, BY_HAND), 0.92),
        atLeast(TRANSACTION, ratio(INLINE, TRANSACTION), 0.75),
        atLeast(`inline (${DEFERRED})`, ratio(DEFERRED, INLINE), 0.8),
      ],
    });
  },
};

/** What one transaction for many messages saves. */
export const batches: Measure = {
  name: 'batches',
  async run(world, { rounds, scale }) {
    const count = Math.max(1, Math.round(50 * scale)) * 100;
    return alternate({
      title:
        'Handling messages one by one (prefetch 50), and in batches of 100 with one insert (prefetch 400)',
      unit: 'msg/s',
      rounds,
      contenders: [
        await consumer(world, { name: INLINE, kind: 'inline', count }),
        await consumer(world, { name: BATCHES, kind: 'batch', count: 4 * count, prefetch: 400 }),
      ],
      bars: ({ ratio }) => [atLeast(INLINE, ratio(BATCHES, INLINE), 4)],
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
        await consumer(world, { name: INLINE, kind: 'inline', count, rate: 500 }),
        await consumer(world, { name: DEFERRED, kind: 'deferred', count, rate: 500 }),
      ],
      bars: ({ value }) => [
        { text: `< 10 ms: ${DEFERRED}`, value: value(DEFERRED), met: value(DEFERRED) < 10 },
      ],
    });
  },
};

export interface ConsumerSettings {
  readonly name: string;
  /** See programs/consumer.ts. */
  readonly kind: string;
  /** Messages in each round. */
  readonly count: number;
  /** Messages per second; then the value is the median time in ms. Default: as fast as it goes, and messages per second. */
  readonly rate?: number;
  /** Default 50. */
  readonly prefetch?: number;
}

export async function consumer(
  world: World,
  { name, kind, count, rate, prefetch = 50 }: ConsumerSettings,
): Promise<Contender> {
  const label = kind.replace(' ', '-');
  const queue = await world.queue(label);
  const program = Program.start('programs/consumer.ts', {
    KIND: kind,
    QUEUE: queue,
    PREFETCH: String(prefetch),
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
