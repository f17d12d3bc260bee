import { setTimeout as delay } from 'node:timers/promises';
import type { ConsumeMessage } from 'amqplib';
import { summary } from '../harness/alternate';
import { median } from '../harness/statistics';
import type { Measure } from '../harness/measure';
import { Program } from '../harness/program';

const MINUTES = 20;
/** Rows written at once; the next as soon as few are left, so that the dispatcher always has work. */
const PORTION = 2_000;

/** A forgotten transaction keeps dead rows alive: do claims become slower with each minute? */
export const snapshot: Measure = {
  name: 'snapshot',
  async run(world, { scale }) {
    const minute = 60_000 * scale;
    const DATABASE = await world.database('snapshot');
    const queue = await world.queue('snapshot');
    const OPTIONS = JSON.stringify({ pollInterval: 100 });
    const program = Program.start('programs/product.ts', { DATABASE, OPTIONS });
    await program.call('ready');
    // Counted here and not in the table: the count would read all that the snapshot keeps, and be slower than the claims.
    let arrived = 0;
    let double = 0;
    // A message that comes twice does so soon; all ids of twenty minutes would not fit into memory.
    let recent = new Set<string>();
    let older = new Set<string>();
    const onMessage = (message: ConsumeMessage | null) => {
      const id = String(message?.properties.messageId);
      if (recent.has(id) || older.has(id)) return void double++;
      arrived++;
      recent.add(id);
      if (recent.size === 200_000) [older, recent] = [recent, new Set()];
    };
    await world.channel.consume(queue, onMessage, { noAck: true });
    const forgotten = await world.sql(DATABASE);
    const sentPerMinute: number[] = [];
    let written = 0;
    const waiting = () => written - arrived;
    try {
      for (let n = 0; n < MINUTES; n++) {
        if (n === MINUTES / 2) {
          await forgotten.query('BEGIN ISOLATION LEVEL REPEATABLE READ');
          await forgotten.query('SELECT 1');
        }
        const before = arrived;
        const until = performance.now() + minute;
        while (performance.now() < until) {
          if (waiting() < PORTION) {
            await program.call('fill', { queue, count: PORTION });
            written += PORTION;
          } else await delay(10);
        }
        sentPerMinute.push((arrived - before) / (minute / 1_000));
      }
      const patience = performance.now() + 30_000;
      while (waiting() > 0 && performance.now() < patience) await delay(10);
      const share = sentPerMinute.at(-1)! / sentPerMinute[0]!;
      return {
        title: `${MINUTES} ${scale === 1 ? 'minutes' : 'portions'} of traffic, a snapshot held open for the second half`,
        unit: 'msg/s, one value a minute',
        rounds: MINUTES,
        results: [
          summary(
            'before the snapshot',
            sentPerMinute.slice(0, MINUTES / 2).map((value) => ({ value })),
          ),
          summary(
            'with the snapshot',
            sentPerMinute
              .slice(MINUTES / 2)
              .map((value, n) => (n === 0 ? { value, lost: waiting(), double } : { value })),
          ),
        ],
        bars: [
          { text: '≥ 0.5 × the first minute: the last one', value: share, met: share >= 0.5 },
          {
            text: 'for comparison: median of the last three against the first three',
            value: median(sentPerMinute.slice(-3)) / median(sentPerMinute.slice(0, 3)),
            met: true,
          },
        ],
      };
    } finally {
      await program.stop();
    }
  },
};
