import type { LockRow, LockStatements } from '../lock-statements';
import type { SqlTemplate } from '../table-names';
import { isRetryable, isUniqueViolation } from './errors';
import { affected, rows } from './execute';
import { epochText, milliseconds, toDate } from './sql-values';

/*
 * ShedLock's contract on ShedLock's table. Times are UTC without a zone, on the database's clock; `clock_timestamp()`,
 * because `CURRENT_TIMESTAMP` is when the transaction began. A take-over by ShedLock itself does not raise the fence, so
 * the holder is who has the owner token *and* the fence *and* has not run out.
 */
const NOW = `(clock_timestamp() AT TIME ZONE 'UTC')`;

const lockRow = (lock: string): string =>
  `${lock}.{fence}::text AS fence, ${epochText(`${lock}.{lock_until}`)} AS "lockedUntil"`;

const held = (lock: string): string => `${lock}.{lock_until} > ${NOW}`;

/**
 * Free is a row that is not there, or whose time has run out; a row deleted by hand is simply inserted again. The times
 * are read anew in the update, since it may have waited for another one's. $1 name, $2 owner, $3 at most, in ms.
 */
const takeSql = (sql: SqlTemplate): string =>
  sql(`
  INSERT INTO {} AS l ({name}, {lock_until}, {locked_at}, {locked_by}, {fence})
  VALUES ($1, ${NOW} + ${milliseconds('$3')}, ${NOW}, $2, 1)
  ON CONFLICT ({name}) DO UPDATE SET
    {lock_until} = ${NOW} + ${milliseconds('$3')}, {locked_at} = ${NOW}, {locked_by} = excluded.{locked_by},
    {fence} = l.{fence} + 1
  WHERE l.{lock_until} <= ${NOW}
  RETURNING ${lockRow('l')}`);

const isFreeSql = (sql: SqlTemplate): string =>
  sql(`SELECT NOT EXISTS (SELECT 1 FROM {} AS l WHERE l.{name} = $1 AND ${held('l')}) AS free`);

/** $1 name, $2 owner, $3 fence, $4 at most, in ms. An expired lock stays lost. */
const extendSql = (sql: SqlTemplate): string =>
  sql(`
  UPDATE {} AS l SET {lock_until} = ${NOW} + ${milliseconds('$4')}
  WHERE l.{name} = $1 AND l.{locked_by} = $2 AND l.{fence} = $3::bigint AND ${held('l')}
  RETURNING ${lockRow('l')}`);

/** $1 name, $2 owner, $3 fence, $4 at least, in ms. The row stays. */
const releaseSql = (sql: SqlTemplate): string =>
  sql(`
  UPDATE {} AS l SET {lock_until} = greatest(${NOW}, l.{locked_at} + ${milliseconds('$4')})
  WHERE l.{name} = $1 AND l.{locked_by} = $2 AND l.{fence} = $3::bigint AND ${held('l')}`);

interface RawLockRow {
  readonly fence: string;
  readonly lockedUntil: string;
}

function toLockRow(row: RawLockRow | undefined): LockRow | undefined {
  return row && { fence: row.fence, lockedUntil: toDate(row.lockedUntil) };
}

export function lockStatements(sql: SqlTemplate): LockStatements {
  const isFree = isFreeSql(sql);
  const take = takeSql(sql);
  const extend = extendSql(sql);
  const release = releaseSql(sql);
  return {
    async isFree(runner, name) {
      const [row] = await rows<{ free: boolean }>(runner, isFree, [name]);
      return row?.free === true;
    },

    async take(runner, name, owner, atMostFor) {
      try {
        const [row] = await rows<RawLockRow>(runner, take, [name, owner, atMostFor]);
        return toLockRow(row);
      } catch (error) {
        // Somebody else was faster, and the isolation level does not let us see who.
        if (isRetryable(error) || isUniqueViolation(error)) return undefined;
        throw error;
      }
    },

    async extend(runner, name, owner, fence, atMostFor) {
      const [row] = await rows<RawLockRow>(runner, extend, [name, owner, fence, atMostFor]);
      return toLockRow(row);
    },

    async release(runner, name, owner, fence, atLeastFor) {
      return (await affected(runner, release, [name, owner, fence, atLeastFor])) === 1;
    },
  };
}
