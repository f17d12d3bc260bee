import { summary } from '../harness/alternate';
import type { Measure } from '../harness/measure';
import { OutboxTable } from '../harness/outbox-table';
import { Program } from '../harness/program';
import { quantile } from '../harness/statistics';

/** Bytes. */
interface Watched {
  readonly idle: number;
  readonly seen: readonly number[];
}

const MB = 1024 * 1024;

/** A backlog of a million: does the process grow? */
export const memory: Measure = {
  name: 'memory',
  async run(world, { scale }) {
    const count = Math.round(1_000_000 * scale);
    const url = await world.database('memory');
    const table = await OutboxTable.create(url);
    const queue = await world.queue('memory');
    await table.insert({ count, status: 'ready', routingKey: queue });
    await table.vacuum();
    await table.close();
    const program = Program.start('programs/product.ts', { DATABASE: url, MIGRATE: 'no' }, ['--expose-gc']);
    try {
      await program.call('ready');
      const { resident, inUse } = await program.call<Record<'resident' | 'inUse', Watched>>('drainWatched');
      const { total, distinct } = await world.take(queue, count);
      const above = ({ idle, seen }: Watched) => seen.map((bytes) => (bytes - idle) / MB);
      const row = (name: string, watched: Watched) => {
        const samples = above(watched).map((value) => ({ value }));
        samples[0] = { ...samples[0]!, ...{ lost: count - distinct, double: total - distinct } };
        return summary(name, samples);
      };
      const peak = Math.max(...above(resident));
      const growth = quantile(lastThird(above(inUse)), 0.5) - quantile(firstThird(above(inUse)), 0.5);
      return {
        title: `Memory while ${count.toLocaleString('en')} messages are drained`,
        unit: 'MB above idle',
        rounds: 1,
        results: [row('resident', resident), row('in use after a collection', inUse)],
        bars: [
          { text: '≤ 150 MB above idle: resident, at most', value: peak, met: peak <= 150 },
          {
            text: 'no growth (≤ 10 MB between the medians of the first and the last third): in use after a collection',
            value: growth,
            met: growth <= 10,
          },
        ],
      };
    } finally {
      await program.stop();
    }
  },
};

const firstThird = (values: readonly number[]) => values.slice(0, Math.ceil(values.length / 3));
const lastThird = (values: readonly number[]) => values.slice(-Math.ceil(values.length / 3));
