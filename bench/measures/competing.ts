import { alternate, atLeast } from '../harness/alternate';
import { counted } from '../harness/counted';
import type { Contender, Measure } from '../harness/measure';
import { Program } from '../harness/program';
import type { World } from '../harness/world';

const ONE = 'one process';
const TWO = "two processes, dispatch 'competing'";

/** Do two dispatchers send more than one, and never less? */
export const competing: Measure = {
  name: 'competing',
  async run(world, { rounds, scale }) {
    const count = Math.round(20_000 * scale);
    return alternate({
      title: `Draining ${count} messages with two competing dispatchers`,
      unit: 'msg/s',
      rounds,
      contenders: [await processes(world, ONE, 1, count), await processes(world, TWO, 2, count)],
      bars: ({ ratio }) => [atLeast(ONE, ratio(TWO, ONE), 0.9)],
    });
  },
};

async function processes(world: World, name: string, number: number, count: number): Promise<Contender> {
  const label = `competing-${number}`;
  const queue = await world.queue(label);
  const DATABASE = await world.database(label);
  const OPTIONS = JSON.stringify({ dispatch: 'competing', pollInterval: '1h', wakeUp: 'poll' });
  const programs: Program[] = [];
  for (let n = 0; n < number; n++) {
    const program = Program.start('programs/product.ts', { DATABASE, OPTIONS });
    await program.call('ready');
    programs.push(program);
  }
  const sql = await world.sql(DATABASE);
  return {
    name,
    async prepare() {
      // By SQL: a commit of their own would wake the dispatchers.
      await sql.query('VACUUM ANALYZE outbox_message');
      await sql.query(
        `INSERT INTO outbox_message (message_id, exchange, routing_key, body)
         SELECT gen_random_uuid(), '', $2, rpad('{"pad":"', 198, 'x') || '"}' FROM generate_series(1, $1)`,
        [count, queue],
      );
    },
    async run() {
      const times = await Promise.all(
        programs.map((program) => program.call<{ milliseconds: number }>('drain')),
      );
      return counted(world, queue, count, Math.max(...times.map(({ milliseconds }) => milliseconds)));
    },
    async stop() {
      await Promise.all(programs.map((program) => program.stop()));
    },
  };
}
