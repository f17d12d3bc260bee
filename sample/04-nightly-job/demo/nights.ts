import { Cleanup } from '../../01-claims/demo/cleanup';
import { startPostgres } from '../../01-claims/demo/embedded-postgres';
import { check, failed, say, show, title, until } from '../../01-claims/demo/narrator';
import type { Sql } from '../../01-claims/demo/sql';
import { ReplicaProcess } from './replica-process';
import { temporaryDatabase } from './temporary-database';

/** Seconds from one night to the next. */
const DAY = 5;
const NIGHTS = 3;

interface Night {
  night: number;
  runs: number;
  processes: string;
  fences: string;
}

export async function nights(): Promise<void> {
  const cleanup = new Cleanup();
  try {
    title(`A nightly job on three processes; here a night comes every ${DAY} s`);
    await tell(await temporaryDatabase(await serverUrl(cleanup), cleanup), cleanup);
  } catch (error) {
    console.error(`\n${error instanceof Error ? error.message : String(error)}`);
    process.exitCode = 1;
  }
  await cleanup.run();
  if (failed() > 0) process.exitCode = 1;
  say(process.exitCode ? 'Something is wrong.' : 'All as it should be.');
}

async function serverUrl(cleanup: Cleanup): Promise<string> {
  if (process.env.DATABASE_URL) return process.env.DATABASE_URL;
  const postgres = await startPostgres();
  cleanup.add(() => postgres.stop());
  return postgres.url;
}

async function tell(database: Sql, cleanup: Cleanup): Promise<void> {
  const env = {
    DATABASE_URL: database.url,
    NIGHTLY: `*/${DAY} * * * * *`,
    // Longer than the timers of the processes differ, and over before the next night.
    AT_LEAST_MS: String((DAY / 2) * 1000),
  };
  const start = async () => {
    const replica = await ReplicaProcess.start('main.ts', env);
    cleanup.add(() => replica.end());
    return replica;
  };
  // The first creates the tables.
  const first = await start();
  const replicas = [first, ...(await Promise.all([start(), start()]))];
  say(`Up: ${replicas.map(({ pid }) => pid).join(', ')}`);

  const [since] = await database.rows<{ now: number }>(NOW);
  const from = since!.now + 1; // the night that has begun was not everybody's
  const over = async () => ((await database.rows<{ now: number }>(NOW))[0]?.now ?? 0) >= from + NIGHTS;
  await until(`${NIGHTS} nights are over`, over, (NIGHTS + 3) * DAY);

  const found = await database.rows<Night>(
    `SELECT ${nightOf('made_at')} AS night, count(*)::int AS runs, string_agg(made_by::text, ', ') AS processes,
     string_agg(fence::text, ', ') AS fences FROM reports GROUP BY 1 HAVING ${nightOf('made_at')} BETWEEN $1 AND $2 ORDER BY 1`,
    [from, from + NIGHTS - 1],
  );
  show(
    'reports',
    found.map((each) => `process ${each.processes}, fence ${each.fences}`),
  );
  check(`${NIGHTS} nights, a report for each`, found.length === NIGHTS);
  check(
    'each was made once, by one of the three',
    found.every(({ runs }) => runs === 1),
  );
  const fences = found.map((each) => Number(each.fences));
  check(
    'each run has a higher fence than the one before',
    fences.every((fence, n) => n === 0 || fence > fences[n - 1]!),
  );
  check('no process logged an error', !replicas.some(({ log }) => log.includes('ERROR')));
}

function nightOf(time: string): string {
  return `floor(extract(epoch FROM ${time}) / ${DAY})::int`;
}

const NOW = `SELECT ${nightOf('clock_timestamp()')} AS now`;
