import type { TestDatabase } from '../../support/test-database';

/** A row of the lock table, as the database sees it. */
export interface LockRow {
  /** By the database's clock. */
  readonly held: boolean;
  readonly owner: string;
  readonly fence: bigint;
  readonly lockedAt: number;
  /** Milliseconds, as `lockedAt`. */
  readonly lockedUntil: number;
}

const milliseconds = (column: string) => `(extract(epoch FROM ${column} AT TIME ZONE 'UTC') * 1000)::float8`;

/** @returns `undefined` when there is no such row */
export async function lockRow(
  database: Pick<TestDatabase, 'query'>,
  name: string,
): Promise<LockRow | undefined> {
  const [row] = await database.query<{ fence: string } & Record<string, unknown>>(
    `SELECT lock_until > clock_timestamp() AT TIME ZONE 'UTC' AS held, locked_by AS owner, fence::text,
       ${milliseconds('locked_at')} AS "lockedAt", ${milliseconds('lock_until')} AS "lockedUntil"
     FROM shedlock WHERE name = $1`,
    [name],
  );
  return row && ({ ...row, fence: BigInt(row.fence) } as unknown as LockRow);
}

/** Milliseconds by the database's clock. */
export async function databaseTime(database: Pick<TestDatabase, 'query'>): Promise<number> {
  const [row] = await database.query<{ now: number }>(
    'SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS now',
  );
  return row!.now;
}
