import type { QueryRunner } from 'typeorm';
import type { OutboxStatements } from '../outbox-statements';
import type { SqlTemplate } from '../table-names';
import { lockClaims } from './advisory-locks';
import { claimedColumns, toClaimedMessage, type ClaimedRow } from './claimed-row';
import { affected, rows } from './execute';
import { milliseconds } from './sql-values';

/** For a broker, and not claimed, or claimed by somebody whose lease has run out. */
const free = (row: string): string =>
  `${row}.{transport} <> 'local' AND ` +
  `(${row}.{claimed_until} IS NULL OR ${row}.{claimed_until} <= statement_timestamp())`;

const keyHash = (row: string): string => `hashtextextended(${row}.{ordering_key}, 0)`;

/**
 * P3, step 1. Three looks at the start of an index; the order by it is there so that the planner, who expects to find one
 * row soon anywhere, does not read the table from its start instead.
 *
 * Parameter: $1 the sequence behind which to look for messages without a key.
 */
const anythingDueSql = (sql: SqlTemplate): string =>
  sql(`
  SELECT coalesce(
    (SELECT true FROM {} AS o
      WHERE o.{status} = 'ready' AND o.{ordering_key} IS NULL AND o.{seq} > $1::bigint AND ${free('o')}
      ORDER BY o.{seq} LIMIT 1),
    (SELECT true FROM {} AS o WHERE o.{status} = 'ready' AND o.{ordering_key} IS NOT NULL AND ${free('o')}
      ORDER BY o.{seq} LIMIT 1),
    (SELECT true FROM {} AS o WHERE o.{status} = 'scheduled' AND o.{available_at} <= statement_timestamp()
      ORDER BY o.{available_at} LIMIT 1),
    false
  ) AS due`);

/** The first entry of an index. */
const untilNextDateSql = (sql: SqlTemplate): string =>
  sql(`
  SELECT (extract(epoch FROM o.{available_at} - statement_timestamp()) * 1000)::float8::text AS "until"
  FROM {} AS o WHERE o.{status} = 'scheduled' ORDER BY o.{available_at} LIMIT 1`);

/**
 * P3, step 2: one claim at a time. In a statement of its own: inside the claim it would not help, because the snapshot is
 * older than the lock. Without it claimers would also pick the same rows and come back with few. The memory is for the set
 * of busy keys, which must stay a hash table: otherwise it is read again for each waiting row. And no compilation: the
 * planner, who knows nothing of the LIMIT's effect, expects a long statement and would spend 40 ms on it each time.
 */
const mutexSql = (sql: SqlTemplate): string =>
  `SELECT set_config('work_mem', '64MB', true), set_config('jit', 'off', true), ${lockClaims(sql)}`;

/**
 * P3, step 3. What is due becomes ready, so that the claim itself never looks at dates and a retried message keeps its
 * place by sequence. Bounded, since everything planned for midnight comes due at once.
 *
 * Parameter: $1 how many.
 */
const promoteSql = (sql: SqlTemplate): string =>
  sql(`
  UPDATE {} SET {status} = 'ready'
  WHERE {seq} = ANY (ARRAY(
    SELECT {seq} FROM {} WHERE {status} = 'scheduled' AND {available_at} <= statement_timestamp()
    ORDER BY {available_at} LIMIT $1::int FOR UPDATE SKIP LOCKED
  ))`);

/**
 * Whether a key is stopped by a dead message: one look into an index of just those, for each row that would be picked. A
 * join that has to look (the LIMIT forbids to read all dead ones instead), and not a condition, so that newer servers
 * remember the answer for a key with many waiting rows.
 */
const haltedSql = `
      LEFT JOIN LATERAL (
        SELECT true AS halted FROM {} AS d
        WHERE d.{status} = 'dead' AND d.{ordering_key} IS NOT NULL AND d.{ordering_key} = o.{ordering_key}
          AND d.{transport} <> 'local' LIMIT 1
      ) AS dead ON true`;

/**
 * P3, step 4.
 *
 * 1. `busy`: keys with a message that is in flight or waits for its retry. Reads an index of just those. Keys are compared by
 *    a 64-bit hash, which makes a set of 100,000 of them small and quick; two keys with one hash would only wait for each
 *    other.
 * 2. `pick`: the first ready ones by sequence: those without a key behind $4, those with a key whose key is neither busy nor,
 *    where dead ones stop their keys, halted.
 * 3. `locked`: those of them that nobody else has locked. Free is asked again, on the row as it is now: its old claimer may
 *    have renewed it since.
 * 4. `gap`: for each key the first picked one that could not be locked, e.g. because a user is cancelling it. What comes
 *    behind it has to wait.
 * 5. Claim the locked ones before the gap.
 *
 * One clock for the whole statement, `statement_timestamp()`. Rows are found by `= ANY (ARRAY(…))`, which is evaluated
 * once and read by index whatever the planner believes about the size of the table.
 *
 * Parameters: $1 token, $2 lease in milliseconds, $3 how many, $4 the sequence behind which to pick those without a key.
 */
const claimSql = (sql: SqlTemplate, { haltOnDead }: { haltOnDead: boolean }): string =>
  sql(`
  WITH busy AS MATERIALIZED (
    SELECT ${keyHash('o')} AS key FROM {} AS o
    WHERE o.{ordering_key} IS NOT NULL AND o.{status} IN ('ready', 'scheduled')
      AND (o.{holds_key} OR o.{attempts} > 0)
      AND (o.{claimed_until} > statement_timestamp() OR o.{status} = 'scheduled')
      AND o.{transport} <> 'local'
  ), pick AS MATERIALIZED (
    (
      SELECT o.{seq} AS seq, NULL::bigint AS key FROM {} AS o
      WHERE o.{status} = 'ready' AND o.{ordering_key} IS NULL AND o.{seq} > $4::bigint AND ${free('o')}
      ORDER BY o.{seq} LIMIT $3::int
    ) UNION ALL (
      SELECT o.{seq}, ${keyHash('o')} FROM {} AS o${haltOnDead ? haltedSql : ''}
      WHERE o.{status} = 'ready' AND o.{ordering_key} IS NOT NULL AND ${free('o')}
        AND ${keyHash('o')} NOT IN (SELECT key FROM busy)${haltOnDead ? ' AND dead.halted IS NULL' : ''}
      ORDER BY o.{seq} LIMIT $3::int
    )
    ORDER BY seq LIMIT $3::int
  ), locked AS MATERIALIZED (
    SELECT o.{seq} AS seq FROM {} AS o
    WHERE o.{seq} = ANY (ARRAY(SELECT seq FROM pick)) AND o.{status} = 'ready' AND ${free('o')}
    FOR UPDATE OF o SKIP LOCKED
  ), gap AS MATERIALIZED (
    SELECT key, min(seq) AS seq FROM pick
    WHERE key IS NOT NULL AND seq NOT IN (SELECT seq FROM locked)
    GROUP BY key
  ), mine AS MATERIALIZED (
    SELECT pick.seq FROM pick JOIN locked USING (seq) LEFT JOIN gap ON gap.key = pick.key
    WHERE gap.key IS NULL OR pick.seq < gap.seq
  ), claimed AS (
    UPDATE {} AS o
    SET {claim_token} = $1::uuid, {claimed_until} = statement_timestamp() + ${milliseconds('$2')},
      {holds_key} = o.{ordering_key} IS NOT NULL
    WHERE o.{seq} = ANY (ARRAY(SELECT seq FROM mine))
    RETURNING o.*
  )
  SELECT ${claimedColumns('c')}
  FROM claimed AS c ORDER BY c.{seq}`);

/** Only what still has the token. Parameters: $1 token, $2 lease in milliseconds, $3 sequences. */
const renewSql = (sql: SqlTemplate): string =>
  sql(`
  UPDATE {} SET {claimed_until} = clock_timestamp() + ${milliseconds('$2')}
  WHERE {seq} = ANY ($3::bigint[]) AND {claim_token} = $1::uuid`);

/** Due messages become ready, at least this many at once: others may have no use for those in front. */
const MIN_PROMOTED = 1_000;

/** P3, steps 2 and 3: what each claim begins with. */
export function openClaims(sql: SqlTemplate): (runner: QueryRunner, limit: number) => Promise<void> {
  const mutex = mutexSql(sql);
  const promote = promoteSql(sql);
  return async (runner, limit) => {
    await runner.query(mutex);
    await affected(runner, promote, [Math.max(2 * limit, MIN_PROMOTED)]);
  };
}

/** Before every sequence. */
const START = '0';

export function outboxClaim(
  sql: SqlTemplate,
): Pick<OutboxStatements, 'anythingDue' | 'untilNextDate' | 'claim' | 'renew'> {
  const anythingDue = anythingDueSql(sql);
  const untilNextDate = untilNextDateSql(sql);
  const open = openClaims(sql);
  const claim = claimSql(sql, { haltOnDead: false });
  const haltingClaim = claimSql(sql, { haltOnDead: true });
  const renew = renewSql(sql);
  return {
    async anythingDue(runner, after = START) {
      const [row] = await rows<{ due: boolean }>(runner, anythingDue, [after]);
      return row?.due === true;
    },

    async untilNextDate(runner) {
      const [row] = await rows<{ until: string }>(runner, untilNextDate);
      return row && Number(row.until);
    },

    async claim(runner, { token, lease, limit, after = START, haltOnDead = false }) {
      await open(runner, limit);
      const statement = haltOnDead ? haltingClaim : claim;
      const claimed = await rows<ClaimedRow>(runner, statement, [token, lease, limit, after]);
      return claimed.map(toClaimedMessage);
    },

    renew: (runner, token, lease, seqs) => affected(runner, renew, [token, lease, [...seqs]]),
  };
}
