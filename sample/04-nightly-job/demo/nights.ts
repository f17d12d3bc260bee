import { join } from 'node:path';
import type { Cleanup } from '../../shared/cleanup';
import { databaseServer } from '../../shared/database-server';
import { check, say, show, until } from '../../shared/narrator';
import { play } from '../../shared/play';
import { Program } from '../../shared/program';
import type { Sql } from '../../shared/sql';
import { temporaryDatabase } from '../../shared/temporary-database';

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
  const replicas: Program[] = [];
  await play({
    title: `A nightly job on three processes; here a night comes every ${DAY} s`,
    log: () => replicas.map(({ log }) => log).join('\n'),
    story: async (cleanup) => {
      const database = await temporaryDatabase(await databaseServer(cleanup), 'nightly', cleanup);
      await startThree(database, replicas, cleanup);
      await tell(database);
      check('no process logged an error', !replicas.some(({ log }) => log.includes('ERROR')));
    },
  });
}

async function startThree(database: Sql, replicas: Program[], cleanup: Cleanup): Promise<void> {
  const env = {
    DATABASE_URL: database.url,
    NIGHTLY: `*/${DAY} * * * * *`,
    // Longer than the timers of the processes differ, and over before the next night.
    AT_LEAST_MS: String((DAY / 2) * 1000),
  };
  const start = async () => {
    const replica = await Program.start(join(__dirname, '../main.ts'), { env });
    cleanup.add(() => replica.stop());
    replicas.push(replica);
  };
  await start(); // creates the tables
  await Promise.all([start(), start()]);
  say(`Up: ${replicas.map(({ pid }) => pid).join(', ')}`);
}

async function tell(database: Sql): Promise<void> {
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
}

function nightOf(time: string): string {
  return `floor(extract(epoch FROM ${time}) / ${DAY})::int`;
}

const NOW = `SELECT ${nightOf('clock_timestamp()')} AS now`;
