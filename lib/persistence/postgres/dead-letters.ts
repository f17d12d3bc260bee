import type { QueryRunner } from 'typeorm';
import type {
  DeadLetterBatch,
  DeadLetterContent,
  DeadLetterCriteria,
  DeadLetterRow,
  DeadLetterStatements,
} from '../dead-letter-statements';
import type { SqlTemplate } from '../table-names';
import { rows } from './execute';
import { epochText, instant, toDate } from './sql-values';

/** What the two tables call things. */
interface Table {
  readonly owner: string;
  readonly storedAt: string;
  readonly diedAt: string;
  readonly body: string;
  /** The assignments of a replay. */
  readonly revive: string;
  /** Of those that can be replayed at all. */
  readonly revivable: string;
  /** The statement that takes the rows `picked` away. */
  readonly remove: string;
}

const OUTBOX: Table = {
  owner: 'o.{transport}',
  storedAt: 'o.{created_at}',
  diedAt: 'coalesce(o.{settled_at}, o.{created_at})',
  body: `o.{body} AS "body", o.{body_encoding} AS "bodyEncoding"`,
  // Ready and not scheduled, so that it takes its place by sequence. One that has expired would be dead again at once.
  revive: `{status} = 'ready', {attempts} = 0, {available_at} = clock_timestamp(), {settled_at} = NULL,
    {claim_token} = NULL, {claimed_until} = NULL, {holds_key} = false,
    {expires_at} = CASE WHEN o.{expires_at} > clock_timestamp() THEN o.{expires_at} END`,
  revivable: 'true',
  remove: `DELETE FROM {} AS o`,
};

const INBOX: Table = {
  owner: 'o.{consumer}',
  storedAt: 'o.{received_at}',
  diedAt: 'coalesce(o.{processed_at}, o.{received_at})',
  body: `o.{body} AS "body"`,
  revive: `{status} = 'open', {attempts} = 0, {available_at} = clock_timestamp(), {processed_at} = NULL,
    {claim_token} = NULL, {claimed_until} = NULL`,
  // Without its body it cannot be handled.
  revivable: 'o.{body} IS NOT NULL',
  // The identity stays for the retention, so that a late redelivery is still recognised and not handled after all.
  remove: `UPDATE {} AS o SET {status} = 'done', {processed_at} = clock_timestamp(), {body} = NULL, {headers} = NULL,
    {properties} = NULL`,
};

/**
 * Dead rows that match. $1 message id, $2 owner, $3 exchange, $4 routing key, $5 died at or after, $6 died before, $7 text in
 * the error; null for any.
 */
const matching = ({ owner, diedAt }: Table): string => `o.{status} = 'dead'
    AND ($1::text IS NULL OR o.{message_id} = $1)
    AND ($2::text IS NULL OR ${owner} = $2)
    AND ($3::text IS NULL OR o.{exchange} = $3)
    AND ($4::text IS NULL OR o.{routing_key} = $4)
    AND ($5::timestamptz IS NULL OR ${diedAt} >= $5)
    AND ($6::timestamptz IS NULL OR ${diedAt} < $6)
    AND ($7::text IS NULL OR strpos(lower(coalesce(o.{last_error}, '')), lower($7)) > 0)`;

const columns = ({ owner, storedAt, diedAt }: Table): string => `o.{seq}::text AS "seq",
    o.{message_id} AS "messageId", ${owner} AS "owner", coalesce(o.{exchange}, '') AS "exchange",
    coalesce(o.{routing_key}, '') AS "routingKey", o.{ordering_key} AS "orderingKey", o.{attempts} AS "attempts",
    o.{last_error} AS "error", ${epochText(storedAt)} AS "storedAt", ${epochText(diedAt)} AS "diedAt"`;

/** The sequence is the cursor, so that pages are stable whatever dies or is replayed meanwhile. $8 before, $9 how many. */
const listSql = (sql: SqlTemplate, table: Table): string =>
  sql(`
  SELECT ${columns(table)} FROM {} AS o
  WHERE ${matching(table)} AND ($8::bigint IS NULL OR o.{seq} < $8)
  ORDER BY o.{seq} DESC LIMIT $9::int`);

const findSql = (sql: SqlTemplate, table: Table): string =>
  sql(`
  SELECT ${columns(table)}, ${table.body}, o.{headers} AS "headers", o.{properties} AS "properties" FROM {} AS o
  WHERE ${matching(table)} LIMIT 1`);

/**
 * One statement, so that of two who ask for the same at the same time one changes the row, and the other finds it changed:
 * the lock is followed by another look at the row as it is then. $8 behind which sequence, $9 how many.
 */
const changeSql = (
  sql: SqlTemplate,
  table: Table,
  change: string,
  { among = 'true', lock = '' }: { among?: string; lock?: string },
): string =>
  sql(`
  WITH picked AS MATERIALIZED (
    SELECT o.{seq} AS seq FROM {} AS o
    WHERE ${matching(table)} AND ${among} AND o.{seq} > $8::bigint
    ORDER BY o.{seq} LIMIT $9::int FOR UPDATE OF o ${lock}
  )
  ${change} WHERE o.{seq} = ANY (ARRAY(SELECT seq FROM picked)) AND o.{status} = 'dead'
  RETURNING o.{seq}::text AS "seq"`);

export const outboxDeadLetters = (sql: SqlTemplate): DeadLetterStatements => statements(sql, OUTBOX);
export const inboxDeadLetters = (sql: SqlTemplate): DeadLetterStatements => statements(sql, INBOX);

type Raw<T extends DeadLetterRow> = Omit<T, 'storedAt' | 'diedAt'> & { storedAt: string; diedAt: string };
type RawContent = Raw<Omit<DeadLetterContent, 'body'>> & {
  body: string | Buffer | null;
  bodyEncoding?: string;
};

function statements(sql: SqlTemplate, table: Table): DeadLetterStatements {
  const list = listSql(sql, table);
  const find = findSql(sql, table);
  const replay = change(sql, table, `UPDATE {} AS o SET ${table.revive}`, table.revivable);
  const discard = change(sql, table, table.remove);
  return {
    async list(runner, criteria, { before, limit }) {
      const found = await rows<Raw<DeadLetterRow>>(runner, list, [
        ...parameters(criteria),
        before ?? null,
        limit,
      ]);
      return found.map(dated);
    },

    async find(runner, criteria) {
      const [found] = await rows<RawContent>(runner, find, parameters(criteria));
      if (!found) return undefined;
      const { body, bodyEncoding, ...row } = found;
      return { ...dated(row), body: bytes(body, bodyEncoding) };
    },

    replay,
    discard,
  };
}

type Change = (
  runner: QueryRunner,
  criteria: DeadLetterCriteria,
  batch: DeadLetterBatch,
) => Promise<string[]>;

function change(sql: SqlTemplate, table: Table, statement: string, among?: string): Change {
  const one = changeSql(sql, table, statement, { among });
  const many = changeSql(sql, table, statement, { among, lock: 'SKIP LOCKED' });
  return async (runner, criteria, { after, limit }) => {
    const changed = await rows<{ seq: string }>(runner, criteria.messageId === undefined ? many : one, [
      ...parameters(criteria),
      after,
      limit,
    ]);
    return changed.map(({ seq }) => seq);
  };
}

const parameters = (criteria: DeadLetterCriteria): unknown[] => [
  criteria.messageId ?? null,
  criteria.owner ?? null,
  criteria.exchange ?? null,
  criteria.routingKey ?? null,
  instant(criteria.diedAfter),
  instant(criteria.diedBefore),
  criteria.errorContains ?? null,
];

function dated<T extends { storedAt: string; diedAt: string }>(
  row: T,
): Omit<T, 'storedAt' | 'diedAt'> & { storedAt: Date; diedAt: Date } {
  return { ...row, storedAt: toDate(row.storedAt), diedAt: toDate(row.diedAt) };
}

/** As it would be sent; a row may be dead because its body is damaged, so this never throws. */
function bytes(body: string | Buffer | null, encoding: string | undefined): Buffer {
  if (body === null) return Buffer.alloc(0);
  return typeof body === 'string' ? Buffer.from(body, encoding === 'base64' ? 'base64' : 'utf8') : body;
}
