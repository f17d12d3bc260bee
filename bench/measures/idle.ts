import { summary } from '../harness/alternate';
import type { Measure } from '../harness/measure';
import { Program } from '../harness/program';

const POLL = 200;
const LEASE = 30_000;

/** What an application with nothing to do costs the database. */
export const idle: Measure = {
  name: 'idle',
  async run(world, { scale }) {
    const milliseconds = Math.round(30_000 * scale);
    const DATABASE = await world.database('idle');
    const OPTIONS = JSON.stringify({ pollInterval: POLL, lease: LEASE });
    const start = () => Program.start('programs/idler.ts', { DATABASE, OPTIONS });
    const leader = start();
    await leader.call('ready');
    // One poll later it leads.
    await leader.call('idle', { milliseconds: 3 * POLL });
    const follower = start();
    try {
      await follower.call('ready');
      const sql = await world.sql(DATABASE);
      const deadRows = async () => {
        await sql.query('SELECT pg_stat_force_next_flush()').catch(() => undefined);
        const { rows } = await sql.query<{ dead: number }>(
          `SELECT (n_tup_upd + n_tup_del)::int AS dead FROM pg_stat_user_tables WHERE relname = 'outbox_message'`,
        );
        return rows[0]!.dead;
      };
      const before = await deadRows();
      const [leaderCount, followerCount] = await Promise.all(
        [leader, follower].map((program) => program.call<number>('idle', { milliseconds })),
      );
      // Statistics are written at most once a second.
      await new Promise((resolve) => setTimeout(resolve, 1_500));
      const dead = (await deadRows()) - before;
      const polls = milliseconds / POLL;
      const perPoll = (count: number) => [{ value: count / polls }];
      return {
        title: `An idle system, ${milliseconds / 1_000} s, polling each ${POLL} ms`,
        unit: 'statements per poll interval, lease renewals and BEGIN/COMMIT included',
        rounds: 1,
        results: [summary('leader', perPoll(leaderCount!)), summary('follower', perPoll(followerCount!))],
        bars: [
          {
            text: '≤ 2 per poll on the leader',
            value: leaderCount! / polls,
            met: leaderCount! / polls <= 2.2,
          },
          {
            text: '≤ 1 per poll elsewhere',
            value: followerCount! / polls,
            met: followerCount! / polls <= 1.1,
          },
          { text: 'no dead tuples in the outbox table', value: dead, met: dead === 0 },
        ],
      };
    } finally {
      await Promise.all([leader.stop(), follower.stop()]);
    }
  },
};
