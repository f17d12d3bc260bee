import { Cleanup } from '../../01-claims/demo/cleanup';
import { check, failed, say, title, until } from '../../01-claims/demo/narrator';
import { settings } from '../../01-claims/shared/settings';
import type { Sql } from '../../01-claims/demo/sql';
import { ReplicaProcess } from './replica-process';
import { temporaryDatabase } from './temporary-database';

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
  const cleanup = new Cleanup();
  try {
    title('Three processes; the one that leads is killed');
    const database = await temporaryDatabase(settings.databaseUrl, cleanup);
    const replicas = await startThree(database, cleanup);
    for (const [signal, most, why] of BOUNDS) {
      const { from, to, took } = await killLeader(database, replicas, signal);
      check(`${signal}: from ${from} to ${to} in ${took} ms (at most ${why})`, took <= most);
      replicas.push(await start(database, cleanup));
    }
  } catch (error) {
    console.error(`\n${error instanceof Error ? error.message : String(error)}`);
    process.exitCode = 1;
  }
  await cleanup.run();
  if (failed() > 0) process.exitCode = 1;
}

async function startThree(database: Sql, cleanup: Cleanup): Promise<ReplicaProcess[]> {
  // The first creates the tables.
  const first = await start(database, cleanup);
  const replicas = [first, ...(await Promise.all([start(database, cleanup), start(database, cleanup)]))];
  say(`Up: ${replicas.map(({ pid }) => pid).join(', ')}`);
  return replicas;
}

async function start(database: Sql, cleanup: Cleanup): Promise<ReplicaProcess> {
  const replica = await ReplicaProcess.start('demo/outbox-replica.ts', {
    DATABASE_URL: database.url,
    AMQP_URL: settings.amqpUrl,
    LEASE_MS: String(LEASE),
    POLL_MS: String(POLL),
  });
  cleanup.add(() => replica.end());
  return replica;
}

/** Both times are the database's, so that looking costs nothing. */
async function killLeader(database: Sql, replicas: readonly ReplicaProcess[], signal: NodeJS.Signals) {
  let before: Leader | undefined;
  await until('one leads', async () => (before = await leader(database)) !== undefined);
  const from = before!.pid;
  const replica = replicas.find(({ pid }) => pid === from);
  if (!replica) throw new Error(`Process ${from} leads and is none of ours`);
  const killed = await database.number('SELECT extract(epoch FROM clock_timestamp()) * 1000');
  replica.signal(signal);
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
