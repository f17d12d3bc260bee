import { DEDUPLICATION_RETENTION, type OutboxStatements } from '../outbox-statements';
import type { SqlTemplate } from '../table-names';
import { affected } from './execute';
import { milliseconds } from './sql-values';

/** `statement_timestamp()` and not `clock_timestamp()`, which no index can be searched for. */
const sinceStatement = (age: string): string => `statement_timestamp() - ${milliseconds(age)}`;

/**
 * Deletes sent rows, oldest first and a bounded number at once, so that it never holds many locks; what somebody else has
 * locked is left for the next time. Only the status `sent` can be hit. Rows with a deduplication key have an index and a
 * branch of their own: they stay for longer, and must not be walked over each time.
 *
 * Parameters: $1 age in milliseconds, $2 how many, $3 least age in milliseconds of a row with a deduplication key.
 */
const deleteSentSql = (sql: SqlTemplate): string =>
  sql(`
  WITH plain AS MATERIALIZED (
    SELECT {seq} AS seq FROM {}
    WHERE {status} = 'sent' AND {deduplication_key} IS NULL AND {settled_at} < ${sinceStatement('$1')}
    ORDER BY {settled_at} LIMIT $2::int FOR UPDATE SKIP LOCKED
  ), remembered AS MATERIALIZED (
    SELECT {seq} AS seq FROM {}
    WHERE {status} = 'sent' AND {deduplication_key} IS NOT NULL
      AND {settled_at} < ${sinceStatement('greatest($1::float8, $3::float8)')}
    ORDER BY {settled_at} LIMIT $2::int - (SELECT count(*) FROM plain) FOR UPDATE SKIP LOCKED
  )
  DELETE FROM {} WHERE {seq} = ANY (ARRAY(SELECT seq FROM plain UNION ALL SELECT seq FROM remembered))`);

export function outboxCleanup(sql: SqlTemplate): OutboxStatements['deleteSent'] {
  const deleteSent = deleteSentSql(sql);
  return (runner, olderThan, limit, deduplicationRetention = DEDUPLICATION_RETENTION) =>
    affected(runner, deleteSent, [olderThan, limit, deduplicationRetention]);
}
