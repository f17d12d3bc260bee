import type { InboxBatchStatements } from '../inbox-batch-statements';
import type { SqlTemplate } from '../table-names';
import { rows } from './execute';

/**
 * P1, step 2, for many. Rows are inserted in the order of their ids, which is the same for everybody: two statements that
 * share some of them meet at the first of these, and one waits. In the order of arrival they would deadlock. DISTINCT,
 * because one statement cannot touch a row twice. $1 consumer, $2 message ids.
 */
const takeManySql = (sql: SqlTemplate): string =>
  sql(`
  INSERT INTO {} AS i ({consumer}, {message_id}, {status}, {attempts}, {processed_at})
  SELECT $1, ids.id, 'done', 1, clock_timestamp()
  FROM (SELECT DISTINCT id COLLATE "C" AS id FROM unnest($2::text[]) AS id) ids ORDER BY ids.id
  ON CONFLICT ({consumer}, {message_id}) DO UPDATE SET {status} = 'done', {processed_at} = clock_timestamp()
  WHERE i.{status} = 'seen'
  RETURNING {message_id} AS id`);

export function inboxBatches(sql: SqlTemplate): InboxBatchStatements {
  const takeMany = takeManySql(sql);
  return {
    async takeMany(runner, consumer, messageIds) {
      const taken = await rows<{ id: string }>(runner, takeMany, [consumer, messageIds]);
      return new Set(taken.map(({ id }) => id));
    },
  };
}
