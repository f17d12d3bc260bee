import { summary } from '../harness/alternate';
import type { Measure } from '../harness/measure';
import { OutboxTable } from '../harness/outbox-table';
import { Program } from '../harness/program';

interface Memory {
  /** Bytes. */
  readonly idle: number;
  readonly peak: number;
  /** Highest of each tenth of the time. */
  readonly tenths: readonly number[];
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
      const { idle, peak, tenths } = await program.call<Memory>('drainWatched');
      const { total, distinct } = await world.take(queue, count);
      const name = `draining ${count.toLocaleString('en')} messages`;
      const samples = tenths.map((value) => ({ value: (value - idle) / MB }));
      samples[0] = { ...samples[0]!, ...{ lost: count - distinct, double: total - distinct } };
      const above = (peak - idle) / MB;
      // Tenths 2 to 4 against 8 to 10: the first one still compiles.
      const growth = (Math.max(...tenths.slice(7)) - Math.max(...tenths.slice(1, 4))) / MB;
      return {
        title: 'Memory while a backlog is drained',
        unit: 'MB above idle (highest of each tenth of the time)',
        rounds: 1,
        results: [summary(name, samples)],
        bars: [
          { text: '≤ 150 MB above idle', value: above, met: above <= 150 },
          {
            text: '≤ 20 MB between the second to fourth and the last three tenths',
            value: growth,
            met: growth <= 20,
          },
        ],
      };
    } finally {
      await program.stop();
    }
  },
};
