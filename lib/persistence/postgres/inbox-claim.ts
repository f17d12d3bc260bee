import type { ClaimedInboxMessage, InboxKey } from '../inbox-message';
import type { KeptInboxStatements } from '../kept-inbox-statements';
import type { SqlTemplate } from '../table-names';
import { lockClaims } from './advisory-locks';
import { affected, rows } from './execute';
import { KEY_WINDOW } from './key-window';
import { milliseconds, storable } from './sql-values';

/** Open and due, or claimed by somebody whose lease has run out. The first line is what the index is made for. */
const due = (row: string): string =>
  `${row}.{status} IN ('open', 'in_progress') AND ${row}.{available_at} <= statement_timestamp()
    AND (${row}.{status} = 'open' OR ${row}.{claimed_until} <= statement_timestamp())`;

/**
 * Whose handlers this instance has. Nothing that an index could know: the planner would read all that was ever done for the
 * consumer, by the primary key, to save itself a look at the few that are due (test/integration/persistence/plans.spec.ts).
 */
const isOurs = (row: string, consumers: string): string =>
  `${row}.{consumer} || '' = ANY (${consumers}::text[])`;

/** $1 consumers. */
const anyKeptSql = (sql: SqlTemplate): string =>
  sql(`
  SELECT coalesce((
    SELECT true FROM {} AS i WHERE i.{status} IN ('open', 'in_progress') ORDER BY i.{available_at} LIMIT 1
  ), false) AS kept, coalesce((
    SELECT true FROM {} AS i WHERE ${due('i')} AND ${isOurs('i', '$1')} ORDER BY i.{available_at} LIMIT 1
  ), false) AS due`);

/**
 * One claim at a time, in a statement of its own so that the claim's snapshot is younger than the lock: two claims at once
 * could each take a message of one key, one of them a replayed one that comes before the other.
 *
 * The claim's commit does not wait for the disk. A crash of the server may take it back; then the messages are open again, and
 * whoever has claimed them finds that out when it takes the first under its token, before it has done anything. No
 * compilation, as for the outbox. And no bitmaps: each message leaves dead entries in the index of open ones, and only a plain
 * index scan marks them, so that the next claim is spared them; with bitmaps each claim reads all since the last VACUUM.
 */
const mutexSql = (sql: SqlTemplate): string =>
  `SELECT set_config('synchronous_commit', 'off', true), set_config('jit', 'off', true),
    set_config('enable_bitmapscan', 'off', true), ${lockClaims(sql)}`;

/**
 * P1, step 7.
 *
 * - What is locked belongs to a handler whose transaction is open: its row lock is the lease, however long ago the written
 *   one ran out. It is skipped.
 * - Of an ordering key the first one is taken, and only when none of its key is in progress (`heads`). Keys are found among
 *   the first due messages, but not those that are `busy`: with one in progress, or one that waits for its next run. A key
 *   with a long backlog fills the window alone, is then busy, and lets the next claim see the others.
 * - A lost run goes first, whatever is open before it: a message that was replayed meanwhile waits for it, so it must not wait
 *   for that message.
 * - Attempts are not counted here. A message that kills its process takes all that the process had claimed with it, and
 *   counted at the claim they would die with it. What was claimed before and never came back is a suspect, and is counted when
 *   its turn comes.
 *
 * By `ctid`, which cannot change while the row is locked, since the keys are long. Parameters: $1 token, $2 lease in
 * milliseconds, $3 how many, $4 consumers.
 */
const claimSql = (sql: SqlTemplate): string =>
  sql(`
  WITH busy AS MATERIALIZED (
    SELECT b.{consumer} AS consumer, b.{ordering_key} AS key FROM {} AS b
    WHERE b.{ordering_key} IS NOT NULL AND b.{status} IN ('open', 'in_progress')
      AND (b.{status} = 'in_progress' OR b.{attempts} > 0)
      AND (b.{status} = 'in_progress' OR b.{available_at} > statement_timestamp())
  ), keys AS MATERIALIZED (
    SELECT DISTINCT w.consumer, w.key FROM (
      SELECT i.{consumer} AS consumer, i.{ordering_key} AS key FROM {} AS i
      WHERE ${due('i')} AND i.{status} = 'open' AND i.{ordering_key} IS NOT NULL AND ${isOurs('i', '$4')}
        AND (i.{consumer}, i.{ordering_key}) NOT IN (SELECT consumer, key FROM busy)
      ORDER BY i.{available_at} LIMIT ${KEY_WINDOW}
    ) AS w
  ), heads AS MATERIALIZED (
    SELECT h.id FROM keys CROSS JOIN LATERAL (
      SELECT e.ctid AS id FROM {} AS e
      WHERE e.{consumer} = keys.consumer AND e.{ordering_key} = keys.key
        AND e.{status} IN ('open', 'in_progress') AND e.{ordering_key} IS NOT NULL
      ORDER BY e.{seq} LIMIT 1
    ) AS h
  ), keyed AS MATERIALIZED (
    SELECT i.ctid AS id, false AS suspect, i.{available_at} AS at FROM {} AS i
    WHERE i.ctid = ANY (ARRAY(SELECT id FROM heads))
      AND i.{status} || '' = 'open' AND i.{available_at} <= statement_timestamp()
    FOR UPDATE OF i SKIP LOCKED
  ), free AS MATERIALIZED (
    SELECT i.ctid AS id, i.{status} = 'in_progress' AS suspect, i.{available_at} AS at FROM {} AS i
    WHERE ${due('i')} AND ${isOurs('i', '$4')}
      AND (i.{ordering_key} IS NULL OR (i.{status} = 'in_progress' AND NOT EXISTS (
        SELECT 1 FROM {} AS e
        WHERE e.{consumer} = i.{consumer} AND e.{ordering_key} = i.{ordering_key}
          AND e.{status} IN ('open', 'in_progress') AND e.{ordering_key} IS NOT NULL
          AND e.{status} = 'in_progress' AND e.{seq} < i.{seq}
      )))
    ORDER BY i.{available_at} LIMIT $3::int
    FOR UPDATE OF i SKIP LOCKED
  ), pick AS MATERIALIZED (
    SELECT id, suspect FROM (SELECT * FROM keyed UNION ALL SELECT * FROM free) AS locked ORDER BY at LIMIT $3::int
  ), claimed AS (
    UPDATE {} AS i
    SET {status} = 'in_progress', {claim_token} = $1::uuid,
      {claimed_until} = statement_timestamp() + ${milliseconds('$2')}
    FROM pick WHERE i.ctid = pick.id
    RETURNING i.*, pick.suspect AS suspect
  )
  SELECT c.{seq}::text AS "seq", c.{consumer} AS "consumer", c.{message_id} AS "messageId",
    coalesce(c.{exchange}, '') AS "exchange", coalesce(c.{routing_key}, '') AS "routingKey",
    c.{redelivered} AS "redelivered", coalesce(c.{body}, ''::bytea) AS "body", c.{headers} AS "headers",
    c.{properties} AS "properties", c.{ordering_key} AS "orderingKey", c.{attempts} AS "attempts", c.{last_error} AS "lastError",
    c.suspect AS "suspect"
  FROM claimed AS c ORDER BY c.{seq}`);

/** $1 token, $2 lease in milliseconds, $3 consumers, $4 message ids. */
const renewSql = (sql: SqlTemplate): string =>
  sql(`
  UPDATE {} AS i SET {claimed_until} = clock_timestamp() + ${milliseconds('$2')}
  FROM unnest($3::text[], $4::text[]) AS k (consumer, message_id)
  WHERE i.{consumer} = k.consumer AND i.{message_id} = k.message_id
    AND i.{status} = 'in_progress' AND i.{claim_token} = $1::uuid`);

/** Still ours. $1 consumer, $2 message id, $3 token. */
const OURS = `{consumer} = $1 AND {message_id} = $2 AND {status} = 'in_progress' AND {claim_token} = $3::uuid`;

const countSuspectSql = (sql: SqlTemplate): string =>
  sql(`UPDATE {} SET {attempts} = {attempts} + 1 WHERE ${OURS} RETURNING {attempts} AS attempts`);

/**
 * P1, step 8. From here to the end of the transaction its row lock is the lease. What is done needs its body no longer; a
 * rollback brings it back.
 */
const takeKeptSql = (sql: SqlTemplate): string =>
  sql(`
  UPDATE {} SET {status} = 'done', {processed_at} = clock_timestamp(), {claim_token} = NULL, {claimed_until} = NULL,
    {body} = NULL, {headers} = NULL, {properties} = NULL
  WHERE ${OURS}`);

/** P1, step 9. $4 attempts, $5 error, $6 milliseconds until the next run, null for dead. */
const failKeptSql = (sql: SqlTemplate): string =>
  sql(`
  UPDATE {} SET {status} = CASE WHEN $6::float8 IS NULL THEN 'dead' ELSE 'open' END, {attempts} = $4::int,
    {last_error} = $5, {processed_at} = CASE WHEN $6::float8 IS NULL THEN clock_timestamp() END,
    {available_at} = coalesce(clock_timestamp() + ${milliseconds('$6')}, {available_at}),
    {claim_token} = NULL, {claimed_until} = NULL
  WHERE ${OURS}`);

/** $4 milliseconds until it is due, $5 whether it is a suspect: that one stays in progress, with no time left. */
const releaseKeptSql = (sql: SqlTemplate): string =>
  sql(`
  UPDATE {} SET {status} = CASE WHEN $5::boolean THEN 'in_progress' ELSE 'open' END,
    {available_at} = clock_timestamp() + ${milliseconds('$4')}, {claim_token} = NULL,
    {claimed_until} = CASE WHEN $5::boolean THEN clock_timestamp() END
  WHERE ${OURS}`);

/** Reads no further than it has to. $1 limit. */
const backlogSql = (sql: SqlTemplate): string =>
  sql(`
  SELECT count(*)::int AS backlog FROM (
    SELECT 1 FROM {} AS i WHERE i.{status} IN ('open', 'in_progress') AND i.{status} = 'open' LIMIT $1::int
  ) AS o`);

/** $1 consumers, $2 milliseconds. */
const waitingConsumersSql = (sql: SqlTemplate): string =>
  sql(`
  SELECT DISTINCT i.{consumer} AS consumer FROM {} AS i
  WHERE i.{status} IN ('open', 'in_progress') AND i.{status} = 'open'
    AND i.{available_at} <= statement_timestamp() - ${milliseconds('$2')} AND i.{consumer} <> ALL ($1::text[])
  ORDER BY 1 LIMIT 20`);

export function inboxClaims(sql: SqlTemplate): Omit<KeptInboxStatements, 'keep' | 'store' | 'isKeyOpen'> {
  const anyKept = anyKeptSql(sql);
  const mutex = mutexSql(sql);
  const claim = claimSql(sql);
  const renew = renewSql(sql);
  const countSuspect = countSuspectSql(sql);
  const takeKept = takeKeptSql(sql);
  const failKept = failKeptSql(sql);
  const releaseKept = releaseKeptSql(sql);
  const backlog = backlogSql(sql);
  const waitingConsumers = waitingConsumersSql(sql);
  const ours = ({ consumer, messageId }: InboxKey, token: string) => [consumer, messageId, token];
  return {
    async anyKept(runner, consumers) {
      const [row] = await rows<{ due: boolean; kept: boolean }>(runner, anyKept, [[...consumers]]);
      return { due: row?.due === true, kept: row?.kept !== false };
    },

    async claimKept(runner, { token, lease, limit, consumers }) {
      await runner.query(mutex);
      return rows<ClaimedInboxMessage>(runner, claim, [token, lease, limit, [...consumers]]);
    },

    renewKept: (runner, token, lease, keys) =>
      affected(runner, renew, [
        token,
        lease,
        keys.map(({ consumer }) => consumer),
        keys.map(({ messageId }) => messageId),
      ]),

    async countSuspect(runner, key, token) {
      const [row] = await rows<{ attempts: number }>(runner, countSuspect, ours(key, token));
      return row && Number(row.attempts);
    },

    async takeKept(runner, key, token) {
      return (await affected(runner, takeKept, ours(key, token))) === 1;
    },

    async failKept(runner, { key, token, attempts, error, next }) {
      const parameters = [...ours(key, token), attempts, storable(error), next === 'dead' ? null : next];
      return (await affected(runner, failKept, parameters)) === 1;
    },

    async releaseKept(runner, key, token, { delay, suspect }) {
      return (await affected(runner, releaseKept, [...ours(key, token), delay, suspect])) === 1;
    },

    async backlog(runner, limit) {
      const [row] = await rows<{ backlog: number }>(runner, backlog, [limit]);
      return Number(row?.backlog);
    },

    async waitingConsumers(runner, others, overdue) {
      const found = await rows<{ consumer: string }>(runner, waitingConsumers, [[...others], overdue]);
      return found.map(({ consumer }) => consumer);
    },
  };
}
