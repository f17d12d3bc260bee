import type { QueryRunner } from 'typeorm';
import { DuplicateMessageError } from '../duplicate-message.error';
import { DEDUPLICATION_RETENTION, type OutboxInsert, type OutboxStatements } from '../outbox-statements';
import type { SqlTemplate } from '../table-names';
import { keySlot, lockKeySlot } from './advisory-locks';
import { isUniqueViolation } from './errors';
import { rows } from './execute';
import { instant, milliseconds } from './sql-values';

/**
 * P2: for each ordering key the order of the sequence must be the order of the commits. So a lock per key is held until
 * the end of the transaction, and it is taken before the sequence value is drawn:
 *
 * 1. `slots` takes the locks, sorted and each once, so that batches with the same keys cannot deadlock;
 * 2. `locked` counts them, which makes the rows below wait for all of them;
 * 3. only then does each row draw its sequence value, in the order given.
 *
 * In the form `VALUES ((SELECT lock…), …)` the sequence value is drawn before the lock, and the order breaks. Without a
 * key there is nothing in $1 and no lock.
 *
 * Parameters: $1 the ordering keys to lock; $2… the columns, an array each, so that there is no limit on parameters.
 */
const insertSql = (sql: SqlTemplate): string =>
  sql(`
  WITH slots AS MATERIALIZED (
    SELECT ${lockKeySlot(sql, 'slot')}
    FROM (SELECT DISTINCT ${keySlot('k')} AS slot FROM unnest($1::text[]) AS k ORDER BY 1) AS sorted
  ), locked AS MATERIALIZED (
    SELECT count(*) FROM slots
  )
  INSERT INTO {} AS o (
    {message_id}, {exchange}, {routing_key}, {body}, {body_encoding}, {headers}, {properties}, {ordering_key},
    {deduplication_key}, {available_at}, {status}, {expires_at}, {retry}, {transport}
  )
  SELECT
    m.message_id, m.exchange, m.routing_key, m.body, m.body_encoding, m.headers, m.properties, m.ordering_key,
    m.deduplication_key, planned.at, CASE WHEN planned.at > now.at THEN 'scheduled' ELSE 'ready' END, m.expires_at,
    m.retry, m.transport
  FROM unnest(
      $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[],
      $11::timestamptz[], $12::float8[], $13::timestamptz[], $14::text[], $15::text[]
    ) WITH ORDINALITY AS m (
      message_id, exchange, routing_key, body, body_encoding, headers, properties, ordering_key, deduplication_key,
      deliver_at, delay, expires_at, retry, transport, position
    )
    CROSS JOIN locked
    CROSS JOIN LATERAL (SELECT clock_timestamp() AS at) AS now
    CROSS JOIN LATERAL (
      SELECT coalesce(m.deliver_at, now.at + ${milliseconds('m.delay')}, now.at) AS at
    ) AS planned
  ORDER BY m.position
  ON CONFLICT ({deduplication_key}) WHERE {deduplication_key} IS NOT NULL DO NOTHING
  RETURNING o.{message_id} AS "messageId"`);

/** The columns of one message that is {@link isPlain plain}; `undefined` where the table's own default says the same. */
const SINGLE: readonly (readonly [column: string, read: (message: OutboxInsert) => unknown])[] = [
  ['message_id', ({ messageId }) => messageId],
  ['exchange', ({ exchange }) => exchange],
  ['routing_key', ({ routingKey }) => routingKey],
  ['body', ({ body }) => body],
  ['body_encoding', ({ bodyEncoding }) => (bodyEncoding === 'utf8' ? undefined : bodyEncoding)],
  ['headers', ({ headers }) => headers ?? undefined],
  ['properties', ({ properties }) => properties ?? undefined],
  ['expires_at', ({ expiresAt }) => instant(expiresAt) ?? undefined],
  ['retry', ({ retry }) => retry ?? undefined],
  ['transport', ({ transport }) => (transport === 'rabbitmq' ? undefined : transport)],
];

/**
 * One message without keys that is due at once, which is what most calls write: nothing to lock, nothing to collide with, no
 * date to work out. The planner takes a seventh of the time, and less for each column that need not be named.
 *
 * Parameters: the columns.
 */
const insertOneSql = (sql: SqlTemplate, columns: readonly string[]): string =>
  sql(
    `INSERT INTO {} (${columns.map((column) => `{${column}}`).join(', ')}) ` +
      `VALUES (${columns.map((_, index) => `$${index + 1}`).join(', ')})`,
  );

const isPlain = ({ orderingKey, deduplicationKey, deliverAt, delay }: OutboxInsert): boolean =>
  orderingKey === null && deduplicationKey === null && deliverAt === undefined && delay === undefined;

const FORGOTTEN = `{status} = 'sent' AND {settled_at} < statement_timestamp() - ${milliseconds('$2')}`;

/**
 * Who has the deduplication keys. A statement of its own: the insert's snapshot is older than what it waited for. A message
 * that was sent long enough ago gives its key back, whether the cleaner has come by or not, or is just at it: it is nobody's
 * key in either case.
 *
 * Parameters: $1 the keys, $2 how long they are remembered, in milliseconds.
 */
const holdersSql = (sql: SqlTemplate): string =>
  sql(`
  WITH freed AS (
    UPDATE {} SET {deduplication_key} = NULL WHERE {deduplication_key} = ANY($1::text[]) AND ${FORGOTTEN}
  )
  SELECT {message_id} AS "messageId", {deduplication_key} AS "deduplicationKey"
  FROM {} WHERE {deduplication_key} = ANY($1::text[]) AND (${FORGOTTEN}) IS NOT TRUE`);

/** A statement with its parameters must stay below 1 GB, and a string of Node below 512 MB. */
const MAX_STATEMENT_CHARACTERS = 64 * 1024 * 1024;

/** A key's holder can be cleaned away between the insert and the look at it; then the insert works the next time. */
const MAX_ROUNDS = 5;

export function outboxInsert(sql: SqlTemplate): OutboxStatements['insert'] {
  const insert = insertSql(sql);
  const insertOne = new Map<string, string>();
  const holders = holdersSql(sql);

  async function write(
    runner: QueryRunner,
    keys: string[],
    messages: readonly OutboxInsert[],
  ): Promise<Set<string>> {
    try {
      const written = await rows<{ messageId: string }>(runner, insert, [keys, ...columns(messages)]);
      return new Set(written.map((row) => row.messageId));
    } catch (error) {
      throw refusal(error, messages);
    }
  }

  async function writeOne(runner: QueryRunner, message: OutboxInsert): Promise<void> {
    const names: string[] = [];
    const values: unknown[] = [];
    for (const [column, read] of SINGLE) {
      const value = read(message);
      if (value === undefined) continue;
      names.push(column);
      values.push(value);
    }
    const key = names.join();
    let statement = insertOne.get(key);
    if (statement === undefined) insertOne.set(key, (statement = insertOneSql(sql, names)));
    try {
      await runner.query(statement, values);
    } catch (error) {
      throw refusal(error, [message]);
    }
  }

  /** Id by deduplication key, for the messages that an earlier one with the same key kept out. */
  async function whoHas(
    runner: QueryRunner,
    refused: readonly OutboxInsert[],
    deduplicationRetention: number,
  ): Promise<Map<string, string>> {
    const found = await rows<{ messageId: string; deduplicationKey: string }>(runner, holders, [
      [...new Set(refused.map((message) => message.deduplicationKey))],
      deduplicationRetention,
    ]);
    return new Map(found.map((row) => [row.deduplicationKey, row.messageId]));
  }

  return async (runner, messages, deduplicationRetention = DEDUPLICATION_RETENTION) => {
    const [first] = messages;
    if (messages.length === 1 && first && isPlain(first)) {
      await writeOne(runner, first);
      return [first.messageId];
    }
    // All locks are taken by the first statement, so that they stay sorted over the parts of a very large batch.
    const keys = [...new Set(messages.flatMap((message) => message.orderingKey ?? []))];
    const ids = new Map<OutboxInsert, string>();
    const duplicates: OutboxInsert[] = [];
    let open = messages;
    for (let round = 0; open.length > 0; round++) {
      if (round === MAX_ROUNDS) throw new Error('The deduplication keys of a batch change hands too fast');
      for (const part of split(open)) {
        const written = await write(runner, keys, part);
        for (const message of part) {
          if (written.has(message.messageId)) ids.set(message, message.messageId);
        }
      }
      open = open.filter((message) => !ids.has(message));
      if (open.length === 0) break;
      const held = await whoHas(runner, open, deduplicationRetention);
      for (const message of open) {
        const id = held.get(message.deduplicationKey ?? '');
        if (id === undefined) continue;
        ids.set(message, id);
        duplicates.push(message);
      }
      open = open.filter((message) => !ids.has(message));
    }
    for (const message of duplicates) message.onDuplicate?.(ids.get(message)!);
    return messages.map((message) => ids.get(message)!);
  };
}

function refusal(error: unknown, messages: readonly OutboxInsert[]): unknown {
  if (!isUniqueViolation(error)) return error;
  const ids = messages.map(({ messageId }) => messageId);
  return new DuplicateMessageError(ids.slice(0, 10), { cause: error });
}

function columns(messages: readonly OutboxInsert[]): unknown[][] {
  return [
    messages.map((message) => message.messageId),
    messages.map((message) => message.exchange),
    messages.map((message) => message.routingKey),
    messages.map((message) => message.body),
    messages.map((message) => message.bodyEncoding),
    messages.map((message) => message.headers),
    messages.map((message) => message.properties),
    messages.map((message) => message.orderingKey),
    messages.map((message) => message.deduplicationKey),
    messages.map((message) => instant(message.deliverAt)),
    messages.map((message) => message.delay ?? null),
    messages.map((message) => instant(message.expiresAt)),
    messages.map((message) => message.retry ?? null),
    messages.map((message) => message.transport ?? 'rabbitmq'),
  ];
}

function* split(messages: readonly OutboxInsert[]): Generator<readonly OutboxInsert[]> {
  let start = 0;
  let size = 0;
  for (const [index, message] of messages.entries()) {
    const length = message.body.length + (message.headers?.length ?? 0) + (message.properties?.length ?? 0);
    if (index > start && size + length > MAX_STATEMENT_CHARACTERS) {
      yield messages.slice(start, index);
      start = index;
      size = 0;
    }
    size += length;
  }
  yield messages.slice(start);
}
