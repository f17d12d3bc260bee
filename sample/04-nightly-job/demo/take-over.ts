import { join } from 'node:path';
import type { Cleanup } from '../../shared/cleanup';
import { databaseServer } from '../../shared/database-server';
import { check, say, until } from '../../shared/narrator';
import { play } from '../../shared/play';
import { Program } from '../../shared/program';
import type { Sql } from '../../shared/sql';
import { temporaryDatabase } from '../../shared/temporary-database';

const LEASE = 3_000;
const POLL = 500;

/** Milliseconds until another must lead: the lock runs out, or is given back at once; then a poll finds it. */
const BOUNDS: readonly [signal: NodeJS.Signals, most: number, why: string][] = [
  ['SIGKILL', LEASE + POLL, `lease ${LEASE} ms + poll ${POLL} ms`],
  ['SIGTERM', POLL + 500, `poll ${POLL} ms + 500 ms`],
];

interface Leader {
  pid: number;
  since: number;
}

export async function takeOver(): Promise<void> {
  const replicas: Program[] = [];
  await play({
    title: 'Three processes with an outbox; the one that leads is killed',
    log: () => replicas.map(({ log }) => log).join('\n'),
    story: async (cleanup) => {
      const database = await temporaryDatabase(await databaseServer(cleanup), 'take_over', cleanup);
      const start = async () => void replicas.push(await startReplica(database, cleanup));
      await start(); // creates the tables
      await Promise.all([start(), start()]);
      say(`Up: ${replicas.map(({ pid }) => pid).join(', ')}`);
      for (const [signal, most, why] of BOUNDS) {
        const { from, to, took } = await killLeader(database, replicas, signal);
        check(`${signal}: from ${from} to ${to} in ${took} ms (at most ${why})`, took <= most);
      }
    },
  });
}

async function startReplica(database: Sql, cleanup: Cleanup): Promise<Program> {
  const replica = await Program.start(join(__dirname, 'outbox-replica.ts'), {
    env: { DATABASE_URL: database.url, LEASE_MS: String(LEASE), POLL_MS: String(POLL) },
    // Nothing is sent here: without a RabbitMQ at hand a stand-in will do.
    preload: process.env.AMQP_URL ? [] : [join(__dirname, '../../shared/in-process-broker.ts')],
  });
  cleanup.add(() => replica.stop());
  return replica;
}

/** Both times are the database's, so that looking costs nothing. */
async function killLeader(database: Sql, replicas: readonly Program[], signal: NodeJS.Signals) {
  let before: Leader | undefined;
  await until('one leads', async () => (before = await leader(database)) !== undefined);
  const from = before!.pid;
  const replica = replicas.find(({ pid }) => pid === from);
  if (!replica) throw new Error(`Process ${from} leads and is none of ours`);
  const killed = await database.number('SELECT extract(epoch FROM clock_timestamp()) * 1000');
  replica.kill(signal);
  let after: Leader | undefined;
  await until('another leads', async () => {
    after = await leader(database);
    return after !== undefined && after.pid !== from;
  });
  return { from, to: after!.pid, took: Math.round(after!.since - killed) };
}

async function leader(database: Sql): Promise<Leader | undefined> {
  const [row] = await database.rows<{ owner: string; since: string }>(
    `SELECT locked_by AS owner, extract(epoch FROM locked_at AT TIME ZONE 'UTC') * 1000 AS since FROM shedlock
     WHERE name = 'outbox-dispatcher' AND lock_until > clock_timestamp() AT TIME ZONE 'UTC'`,
  );
  return row && { pid: Number(row.owner.split(' ').at(-2)), since: Number(row.since) };
}
