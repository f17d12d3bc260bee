import type { PendingMessageStatements } from '../pending-message-statements';
import type { SqlTemplate } from '../table-names';
import { affected } from './execute';
import { instant } from './sql-values';

/**
 * Not claimed, or by somebody whose lease has run out. A statement that waits for a claim to commit looks again at the row as
 * it is then; `statement_timestamp()` is older than that claim, so its lease has not run out by it.
 *
 * A claim that meets a row locked by these statements leaves it, and what is behind it in its key, for the next time.
 */
const PENDING = `{message_id} = $1 AND {status} IN ('ready', 'scheduled')
  AND ({claimed_until} IS NULL OR {claimed_until} <= statement_timestamp())`;

/** Parameter: $1 message id. */
const cancelSql = (sql: SqlTemplate): string => sql(`DELETE FROM {} WHERE ${PENDING}`);

/**
 * A claim that has run out is taken away: whoever had it must not settle the message as failed or released any more.
 *
 * Parameters: $1 message id, $2 planned date.
 */
const rescheduleSql = (sql: SqlTemplate): string =>
  sql(`
  UPDATE {} SET {available_at} = $2::timestamptz,
    {status} = CASE WHEN $2::timestamptz > clock_timestamp() THEN 'scheduled' ELSE 'ready' END,
    {claim_token} = NULL, {claimed_until} = NULL, {holds_key} = false
  WHERE ${PENDING}`);

export function outboxPending(sql: SqlTemplate): PendingMessageStatements {
  const cancel = cancelSql(sql);
  const reschedule = rescheduleSql(sql);
  return {
    cancel: async (runner, messageId) => (await affected(runner, cancel, [messageId])) === 1,
    reschedule: async (runner, messageId, at) =>
      (await affected(runner, reschedule, [messageId, instant(at)])) === 1,
  };
}
