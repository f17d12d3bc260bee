import type { OutboxStatements } from '../outbox-statements';
import type { SqlTemplate } from '../table-names';
import { rows } from './execute';
import { milliseconds, storable } from './sql-values';

/**
 * P3, step 6: how the messages of one claim ended, all at once. One statement, so that nobody sees a part of it and one
 * round trip is enough. A row whose token has changed belongs to somebody else and is left alone, in every branch.
 *
 * A settlement that comes after its lease can meet that of the next holder in a deadlock, since a row that has changed is
 * locked before its token is looked at again: the caller runs it again, as after any deadlock.
 *
 * - `failed`: one more attempt, then waiting for its date, or dead where the delay is null. A dead one gives its
 *   deduplication key back: it would keep every later message with that key from being written;
 * - `kept`: sent and kept; a deduplication key has to be remembered, so its row is kept whatever $6 says;
 * - `removed`: sent and deleted;
 * - `released`: given back with date, state and attempts untouched;
 * - `postponed`: as if their claimer had died and its lease ended after the delay. A claimed row holds its key back and is
 *   free again by itself, so this needs no state of its own. Scheduled with no attempt used up it would not hold its key.
 *
 * Parameters: $1 token; $2, $3, $4 sequence, error and delay in milliseconds of the failed ones; $5 sent ones; $6 whether
 * to keep those; $7 released ones; $8, $9 sequence and delay of the postponed ones.
 */
const settleSql = (sql: SqlTemplate): string =>
  sql(`
  WITH failed AS (
    UPDATE {} AS o SET
      {attempts} = o.{attempts} + 1,
      {last_error} = f.error,
      {status} = CASE WHEN f.delay IS NULL THEN 'dead' ELSE 'scheduled' END,
      {available_at} = coalesce(clock_timestamp() + ${milliseconds('f.delay')}, o.{available_at}),
      {settled_at} = CASE WHEN f.delay IS NULL THEN clock_timestamp() END,
      {deduplication_key} = CASE WHEN f.delay IS NOT NULL THEN o.{deduplication_key} END,
      {claim_token} = NULL,
      {claimed_until} = NULL,
      {holds_key} = false
    FROM unnest($2::bigint[], $3::text[], $4::float8[]) AS f (seq, error, delay)
    WHERE o.{seq} = ANY ($2::bigint[]) AND o.{seq} = f.seq AND o.{claim_token} = $1::uuid
    RETURNING o.{seq} AS seq, o.{status} AS status
  ), kept AS (
    UPDATE {} SET {status} = 'sent', {settled_at} = clock_timestamp(), {claim_token} = NULL, {claimed_until} = NULL,
      {holds_key} = false
    WHERE {seq} = ANY ($5::bigint[]) AND {claim_token} = $1::uuid
      AND ($6::boolean OR {deduplication_key} IS NOT NULL)
    RETURNING 1
  ), removed AS (
    DELETE FROM {}
    WHERE {seq} = ANY ($5::bigint[]) AND {claim_token} = $1::uuid
      AND NOT $6::boolean AND {deduplication_key} IS NULL
    RETURNING 1
  ), released AS (
    UPDATE {} SET {claim_token} = NULL, {claimed_until} = NULL, {holds_key} = false
    WHERE {seq} = ANY ($7::bigint[]) AND {claim_token} = $1::uuid
    RETURNING 1
  ), postponed AS (
    UPDATE {} AS o SET {claimed_until} = clock_timestamp() + ${milliseconds('p.delay')}
    FROM unnest($8::bigint[], $9::float8[]) AS p (seq, delay)
    WHERE o.{seq} = ANY ($8::bigint[]) AND o.{seq} = p.seq AND o.{claim_token} = $1::uuid
    RETURNING 1
  )
  SELECT ((SELECT count(*) FROM failed) + (SELECT count(*) FROM kept) + (SELECT count(*) FROM removed)
    + (SELECT count(*) FROM released) + (SELECT count(*) FROM postponed))::int AS settled,
    (SELECT coalesce(json_agg(seq::text), '[]')::text FROM failed WHERE status = 'dead') AS dead`);

export function outboxSettle(sql: SqlTemplate): OutboxStatements['settle'] {
  const settle = settleSql(sql);
  return async (runner, { token, sent, failed, released, postponed = [], keepSent }) => {
    const [row] = await rows<{ settled: number; dead: string }>(runner, settle, [
      token,
      failed.map(({ seq }) => seq),
      failed.map(({ error }) => storable(error)),
      failed.map(({ next }) => (next === 'dead' ? null : next)),
      [...sent],
      keepSent,
      [...released],
      postponed.map(({ seq }) => seq),
      postponed.map(({ delay }) => delay),
    ]);
    return { settled: Number(row?.settled), dead: JSON.parse(row?.dead ?? '[]') as string[] };
  };
}
