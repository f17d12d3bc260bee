import type { LocalOutboxStatements } from '../local-outbox-statements';
import type { SqlTemplate } from '../table-names';
import { claimedColumns, toClaimedMessage, type ClaimedRow } from './claimed-row';
import { rows } from './execute';
import { KEY_WINDOW } from './key-window';
import { openClaims } from './outbox-claim';
import { milliseconds } from './sql-values';

/** In the words of the indexes for local rows. Free: not claimed, or claimed by somebody whose lease has run out. */
const waiting = (row: string): string =>
  `${row}.{status} = 'ready' AND ${row}.{transport} = 'local' ` +
  `AND (${row}.{claimed_until} IS NULL OR ${row}.{claimed_until} <= statement_timestamp())`;

/** Parameter: $1 names of handlers. Due ones of anybody are made ready by whoever claims next. */
const anyDueSql = (sql: SqlTemplate): string =>
  sql(`
  SELECT coalesce(
    (SELECT true FROM unnest($1::text[]) AS h (name)
      CROSS JOIN LATERAL (
        SELECT 1 FROM {} AS o WHERE ${waiting('o')} AND o.{routing_key} = h.name ORDER BY o.{seq} LIMIT 1
      ) AS found LIMIT 1),
    (SELECT true FROM {} AS o WHERE o.{status} = 'scheduled' AND o.{available_at} <= statement_timestamp()
      ORDER BY o.{available_at} LIMIT 1),
    false
  ) AS due`);

/** Whether a key is stopped by a dead message of the same handler. */
const notHalted = `
            AND NOT EXISTS (
              SELECT 1 FROM {} AS d
              WHERE d.{status} = 'dead' AND d.{ordering_key} IS NOT NULL AND d.{ordering_key} = o.{ordering_key}
                AND d.{transport} = 'local' AND d.{routing_key} = o.{routing_key}
            )`;

/**
 * The claim of P3, step 4, for handlers in this process. It differs in three ways, all because a handler may run for longer
 * than the lease inside the transaction that has locked its row:
 *
 * 1. `busy`: keys with a claimed message, whether or not the lease has run out, or with one that waits for its retry. A row
 *    that *is* the claimed one of its key may be claimed again: its claimer has died.
 * 2. `heads`: otherwise the first of its key only, and only while nothing of the key is busy. So there is one claimed message
 *    of a key at most, and what follows a row that could not be locked is not picked either. The first of each key are looked
 *    for among the first rows of the handler, `KEY_WINDOW` of them: a key with a long backlog fills them alone, is then busy, and
 *    lets the next claim see the others.
 * 3. `free`: those without a key, locked while they are picked, so that rows under a running handler do not count towards the
 *    limit. They would hide everything behind them.
 *
 * Parameters: $1 token, $2 lease in milliseconds, $3 how many, $4 names of handlers, $5 how many of each.
 */
const claimSql = (sql: SqlTemplate, { haltOnDead }: { haltOnDead: boolean }): string =>
  sql(`
  WITH busy AS MATERIALIZED (
    SELECT o.{routing_key} AS name, o.{ordering_key} AS key FROM {} AS o
    WHERE o.{ordering_key} IS NOT NULL AND o.{status} IN ('ready', 'scheduled')
      AND (o.{holds_key} OR o.{attempts} > 0)
      AND (o.{claim_token} IS NOT NULL OR o.{status} = 'scheduled') AND o.{transport} = 'local'
  ), heads AS MATERIALIZED (
    SELECT min(found.seq) AS seq FROM unnest($4::text[]) AS h (name)
      CROSS JOIN LATERAL (
        SELECT o.{seq} AS seq, o.{ordering_key} AS key FROM {} AS o
        WHERE ${waiting('o')} AND o.{routing_key} = h.name AND o.{ordering_key} IS NOT NULL AND o.{claim_token} IS NULL
          AND (o.{routing_key}, o.{ordering_key}) NOT IN (SELECT name, key FROM busy)${haltOnDead ? notHalted : ''}
        ORDER BY o.{seq} LIMIT ${KEY_WINDOW}
      ) AS found
    GROUP BY h.name, found.key
  ), keyed AS MATERIALIZED (
    SELECT o.{seq} AS seq, o.{routing_key} AS name FROM {} AS o
    WHERE o.{seq} = ANY (ARRAY(SELECT seq FROM heads)) AND o.{status} = 'ready' AND o.{claim_token} IS NULL
    FOR UPDATE OF o SKIP LOCKED
  ), free AS MATERIALIZED (
    SELECT found.seq, h.name FROM unnest($4::text[], $5::int[]) AS h (name, room)
      CROSS JOIN LATERAL (
        SELECT o.{seq} AS seq FROM {} AS o
        WHERE ${waiting('o')} AND o.{routing_key} = h.name
          AND (o.{ordering_key} IS NULL OR o.{claim_token} IS NOT NULL)
        ORDER BY o.{seq} LIMIT h.room FOR UPDATE OF o SKIP LOCKED
      ) AS found
  ), chosen AS MATERIALIZED (
    SELECT l.seq FROM (
      SELECT seq, name, row_number() OVER (PARTITION BY name ORDER BY seq) AS place
      FROM (SELECT seq, name FROM keyed UNION ALL SELECT seq, name FROM free) AS locked
    ) AS l JOIN unnest($4::text[], $5::int[]) AS h (name, room) ON h.name = l.name AND l.place <= h.room
    ORDER BY l.seq LIMIT $3::int
  ), claimed AS (
    UPDATE {} AS o
    SET {claim_token} = $1::uuid, {claimed_until} = statement_timestamp() + ${milliseconds('$2')},
      {holds_key} = o.{ordering_key} IS NOT NULL
    WHERE o.{seq} = ANY (ARRAY(SELECT seq FROM chosen))
    RETURNING o.*
  )
  SELECT ${claimedColumns('c')} FROM claimed AS c ORDER BY c.{seq}`);

/** Walks from name to name by index, whatever number of rows each has. Parameters: $1 known names, $2 milliseconds. */
const neglectedSql = (sql: SqlTemplate): string =>
  sql(`
  WITH RECURSIVE names (name, position) AS (
    SELECT * FROM (
      SELECT o.{routing_key}::text, 1 FROM {} AS o WHERE o.{status} = 'ready' AND o.{transport} = 'local'
      ORDER BY o.{routing_key} LIMIT 1
    ) AS first
    UNION ALL
    SELECT next.name, names.position + 1 FROM names CROSS JOIN LATERAL (
      SELECT o.{routing_key}::text AS name FROM {} AS o
      WHERE o.{status} = 'ready' AND o.{transport} = 'local' AND o.{routing_key} > names.name
      ORDER BY o.{routing_key} LIMIT 1
    ) AS next
    WHERE names.position < 1000
  )
  SELECT names.name AS "name" FROM names CROSS JOIN LATERAL (
    SELECT 1 FROM {} AS o
    WHERE ${waiting('o')} AND o.{routing_key} = names.name
      AND o.{available_at} < statement_timestamp() - ${milliseconds('$2')}
    LIMIT 1
  ) AS neglected
  WHERE names.name <> ALL ($1::text[]) LIMIT 100`);

export function outboxLocalClaim(sql: SqlTemplate): LocalOutboxStatements {
  const anyDue = anyDueSql(sql);
  const claim = claimSql(sql, { haltOnDead: false });
  const haltingClaim = claimSql(sql, { haltOnDead: true });
  const neglected = neglectedSql(sql);
  const open = openClaims(sql);
  return {
    async anyLocalDue(runner, handlers) {
      const [row] = await rows<{ due: boolean }>(runner, anyDue, [[...handlers]]);
      return row?.due === true;
    },

    async claimLocal(runner, { token, lease, limit, handlers, haltOnDead = false }) {
      await open(runner, limit);
      const claimed = await rows<ClaimedRow>(runner, haltOnDead ? haltingClaim : claim, [
        token,
        lease,
        limit,
        handlers.map(({ name }) => name),
        handlers.map((handler) => handler.limit),
      ]);
      return claimed.map(toClaimedMessage);
    },

    async neglectedHandlers(runner, known, since) {
      const found = await rows<{ name: string }>(runner, neglected, [[...known], since]);
      return found.map(({ name }) => name);
    },
  };
}
