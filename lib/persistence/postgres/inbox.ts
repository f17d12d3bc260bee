import type { InboxStatements } from '../inbox-statements';
import type { SqlTemplate } from '../table-names';
import { affected, hasRow, rows } from './execute';
import { milliseconds, storable } from './sql-values';

/*
 * P1. A row is `seen` (the broker owns the message, the row is only a counter), `open` or `in_progress` (the table owns it, see
 * inbox-kept.ts and inbox-claim.ts), `done` or `dead`. "Insert or ignore" alone would lose messages: as soon as a
 * redelivery has been counted there is a row, and "ignore" takes it for a duplicate. So every statement says which states
 * it may change, and "no row" means that the message is not ours.
 *
 * Parameters of all: $1 consumer, $2 message id.
 */

/**
 * A row past `seen` never comes back to it, so a look tells without waiting: the row of a kept message that is being handled is
 * locked for as long as its handler runs.
 */
const unlessSettled = `WHERE NOT EXISTS (
    SELECT 1 FROM {} AS s WHERE s.{consumer} = $1 AND s.{message_id} = $2 AND s.{status} <> 'seen'
  )`;

/** P1, step 1. */
const countRedeliverySql = (sql: SqlTemplate): string =>
  sql(`
  INSERT INTO {} AS i ({consumer}, {message_id}, {status}, {attempts})
  SELECT $1::text, $2::text, 'seen', 1 ${unlessSettled}
  ON CONFLICT ({consumer}, {message_id}) DO UPDATE SET {attempts} = i.{attempts} + 1 WHERE i.{status} = 'seen'
  RETURNING {attempts} AS attempts`);

/** P1, step 2. A concurrent copy waits here until this transaction ends: then it is a duplicate, or it is its turn. */
const takeSql = (sql: SqlTemplate, values: string): string =>
  sql(`
  INSERT INTO {} AS i ({consumer}, {message_id}, {status}, {attempts}, {processed_at})
  ${values}
  ON CONFLICT ({consumer}, {message_id}) DO UPDATE SET {status} = 'done', {processed_at} = clock_timestamp()
  WHERE i.{status} = 'seen'
  RETURNING {attempts} AS attempts`);

const TAKEN = "$1::text, $2::text, 'done', 1, clock_timestamp()";

/**
 * P1, step 6, `reject` and `requeue`. The count is not touched: it is for redeliveries, and a row without any has 0.
 * $3 error.
 */
const recordFailureSql = (sql: SqlTemplate): string =>
  sql(`
  INSERT INTO {} AS i ({consumer}, {message_id}, {status}, {attempts}, {last_error}) VALUES ($1, $2, 'seen', 0, $3)
  ON CONFLICT ({consumer}, {message_id}) DO UPDATE SET {last_error} = excluded.{last_error}
  WHERE i.{status} = 'seen'`);

/**
 * Oldest first and a bounded number at once; what is locked is left for the next time. By `ctid`, which cannot change
 * while the row is locked, since the keys are long. $1 age in milliseconds, $2 how many.
 */
const deleteDoneSql = (sql: SqlTemplate): string =>
  sql(`
  DELETE FROM {} WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM {}
    WHERE {status} = 'done' AND {processed_at} < statement_timestamp() - ${milliseconds('$1')}
    ORDER BY {processed_at} LIMIT $2::int FOR UPDATE SKIP LOCKED
  ))`);

export function inboxDeliveries(
  sql: SqlTemplate,
): Pick<InboxStatements, 'countRedelivery' | 'take' | 'recordFailure' | 'deleteDone'> {
  const countRedelivery = countRedeliverySql(sql);
  const take = takeSql(sql, `VALUES (${TAKEN})`);
  const takeLookingFirst = takeSql(sql, `SELECT ${TAKEN} ${unlessSettled}`);
  const recordFailure = recordFailureSql(sql);
  const deleteDone = deleteDoneSql(sql);
  return {
    async countRedelivery(runner, { consumer, messageId }) {
      const [row] = await rows<{ attempts: number }>(runner, countRedelivery, [consumer, messageId]);
      return row && Number(row.attempts);
    },

    take: (runner, { consumer, messageId }, looksFirst = true) =>
      hasRow(runner, looksFirst ? takeLookingFirst : take, [consumer, messageId]),

    async recordFailure(runner, { consumer, messageId }, error) {
      await affected(runner, recordFailure, [consumer, messageId, storable(error)]);
    },

    deleteDone: (runner, olderThan, limit) => affected(runner, deleteDone, [olderThan, limit]),
  };
}
