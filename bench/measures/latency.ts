import type { ConfirmChannel } from 'amqplib';
import { alternate } from '../harness/alternate';
import type { Contender, Measure } from '../harness/measure';
import { Program } from '../harness/program';
import { quantile } from '../harness/statistics';
import type { World } from '../harness/world';

const POLL = 1_000;
const SAME = 'same process';
const OTHER = 'other process, NOTIFY';
const POLLED = `other process, polling each ${POLL} ms`;

/** From the commit to the arrival at a consumer, on an idle system. */
export const latency: Measure = {
  name: 'latency',
  async run(world, { rounds, scale }) {
    const count = Math.max(5, Math.round(50 * scale));
    const poll = { pollInterval: POLL };
    return alternate({
      title: 'From the commit to the broker, on an idle system',
      unit: 'ms (median)',
      rounds,
      contenders: [
        await writer(world, { name: SAME, label: 'same', writes: poll, count, pause: 20 }),
        await writer(world, {
          name: OTHER,
          label: 'notify',
          writes: { dispatch: 'off' },
          sends: poll,
          count,
          pause: 50,
        }),
        await writer(world, {
          name: POLLED,
          label: 'poll',
          writes: { dispatch: 'off', wakeUp: 'poll' },
          sends: { ...poll, wakeUp: 'poll' },
          count: Math.max(2, Math.round(10 * scale)),
          pause: 700,
        }),
      ],
      bars: ({ value }) => [
        { text: `< 5 ms: ${SAME}`, value: value(SAME), met: value(SAME) < 5 },
        { text: `< 20 ms: ${OTHER}`, value: value(OTHER), met: value(OTHER) < 20 },
        { text: `≤ the poll interval: ${POLLED}`, value: value(POLLED), met: value(POLLED) <= POLL },
      ],
    });
  },
};

interface Writer {
  readonly name: string;
  readonly label: string;
  /** Outbox options of the process that publishes. */
  readonly writes: object;
  /** And of the one that sends, where it is another one. */
  readonly sends?: object;
  readonly count: number;
  readonly pause: number;
}

async function writer(
  world: World,
  { name, label, writes, sends, count, pause }: Writer,
): Promise<Contender> {
  const queue = await world.queue(label);
  const DATABASE = await world.database(label);
  const start = (options: object) =>
    Program.start('programs/stamped-writer.ts', { DATABASE, OPTIONS: JSON.stringify(options) });
  const programs = [start(writes)];
  await programs[0]!.call('ready');
  if (sends) {
    programs.push(start(sends));
    await programs[1]!.call('ready');
  }
  const arrived = new Map<string, number>();
  await watch(world.channel, queue, arrived);
  return {
    name,
    async run() {
      arrived.clear();
      const committed = await programs[0]!.call<Record<string, number>>('publish', { queue, count, pause });
      const ids = Object.keys(committed);
      const patience = performance.now() + 5_000;
      while (!ids.every((id) => arrived.has(id)) && performance.now() < patience) {
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
      const lost = ids.filter((id) => !arrived.has(id)).length;
      const times = ids.filter((id) => arrived.has(id)).map((id) => arrived.get(id)! - committed[id]!);
      return { value: quantile(times, 0.5), lost };
    },
    async stop() {
      for (const program of programs) await program.stop();
    },
  };
}

async function watch(channel: ConfirmChannel, queue: string, arrived: Map<string, number>): Promise<void> {
  await channel.consume(
    queue,
    (message) => {
      arrived.set(String(message?.properties.messageId), Number(process.hrtime.bigint()) / 1e6);
    },
    { noAck: true },
  );
}
