import type { InboxStatements, KeptMessage } from '../inbox-statements';
import type { StoredMessage } from '../kept-inbox-statements';
import type { SqlTemplate } from '../table-names';
import { affected, rows } from './execute';
import { milliseconds, storable } from './sql-values';

/*
 * How the table comes to own a message (P1). Only from no row and from `seen`: what is open, in progress, done or dead is
 * settled, and the copy at hand is a duplicate. Each draws a new place in the order of storing.
 */

const COLUMNS = `{consumer}, {message_id}, {exchange}, {routing_key}, {redelivered}, {body}, {headers}, {properties},
    {ordering_key}`;

const COPY = [
  'seq',
  'exchange',
  'routing_key',
  'redelivered',
  'body',
  'headers',
  'properties',
  'ordering_key',
  'available_at',
  'last_error',
]
  .map((column) => `{${column}} = coalesce(excluded.{${column}}, i.{${column}})`)
  .join(', ');

const parametersOf = (message: KeptMessage): unknown[] => [
  message.consumer,
  message.messageId,
  message.exchange,
  message.routingKey,
  message.redelivered,
  message.body,
  message.headers,
  message.properties,
  message.orderingKey,
];

const VALUES = '$1, $2, $3, $4, $5::boolean, $6::bytea, $7, $8, $9';

/** P1, step 6, `retry`. $10 attempts, $11 error, $12 milliseconds until the next run. */
const keepSql = (sql: SqlTemplate): string =>
  sql(`
  INSERT INTO {} AS i (${COLUMNS}, {status}, {attempts}, {last_error}, {available_at})
  VALUES (${VALUES}, 'open', $10::int, $11, clock_timestamp() + ${milliseconds('$12')})
  ON CONFLICT ({consumer}, {message_id}) DO UPDATE SET
    {status} = 'open', {attempts} = excluded.{attempts}, ${COPY}
  WHERE i.{status} = 'seen'`);

/** P1, step 1, over the limit; step 6 for what must not be tried again. $10 error. */
const burySql = (sql: SqlTemplate): string =>
  sql(`
  INSERT INTO {} AS i (${COLUMNS}, {status}, {attempts}, {last_error}, {processed_at})
  VALUES (${VALUES}, 'dead', 1, $10, clock_timestamp())
  ON CONFLICT ({consumer}, {message_id}) DO UPDATE SET
    {status} = 'dead', {processed_at} = excluded.{processed_at}, ${COPY}
  WHERE i.{status} = 'seen'`);

/**
 * Many at once, in the order given: the sequence is drawn after the sort. What is settled is left out by a look (a row past
 * `seen` never comes back to it), since the row of a message that is being handled is locked, and all would wait for it. The
 * columns come as arrays; the bodies too, since one parameter for each would end at 65,535. $10 which ones are claimed, $11
 * token, $12 lease in milliseconds.
 */
const storeSql = (sql: SqlTemplate): string =>
  sql(`
  INSERT INTO {} AS i (${COLUMNS}, {status}, {attempts}, {available_at}, {claim_token}, {claimed_until})
  SELECT m.consumer, m.message_id, m.exchange, m.routing_key, m.redelivered, m.body, m.headers, m.properties,
    m.ordering_key, CASE WHEN m.claimed THEN 'in_progress' ELSE 'open' END, 0, clock_timestamp(),
    CASE WHEN m.claimed THEN $11::uuid END,
    CASE WHEN m.claimed THEN statement_timestamp() + ${milliseconds('$12')} END
  FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::boolean[], $6::bytea[], $7::text[], $8::text[],
    $9::text[], $10::boolean[]) WITH ORDINALITY AS m (consumer, message_id, exchange, routing_key, redelivered, body, headers,
    properties, ordering_key, claimed, place)
  WHERE NOT EXISTS (
    SELECT 1 FROM {} AS s WHERE s.{consumer} = m.consumer AND s.{message_id} = m.message_id AND s.{status} <> 'seen'
  )
  ORDER BY m.place
  ON CONFLICT ({consumer}, {message_id}) DO UPDATE SET {status} = excluded.{status},
    {claim_token} = excluded.{claim_token}, {claimed_until} = excluded.{claimed_until}, ${COPY}
  WHERE i.{status} = 'seen'
  RETURNING {consumer} AS "consumer", {message_id} AS "messageId", {seq}::text AS "seq", {attempts} AS "attempts",
    {last_error} AS "lastError"`);

/** $1 consumer, $2 ordering key. */
const isKeyOpenSql = (sql: SqlTemplate): string =>
  sql(`
  SELECT EXISTS (
    SELECT 1 FROM {} AS i WHERE i.{consumer} = $1 AND i.{ordering_key} = $2 AND i.{status} IN ('open', 'in_progress')
  ) AS open`);

export function inboxKeeping(
  sql: SqlTemplate,
): Pick<InboxStatements, 'keep' | 'bury' | 'store' | 'isKeyOpen'> {
  const keep = keepSql(sql);
  const bury = burySql(sql);
  const store = storeSql(sql);
  const isKeyOpen = isKeyOpenSql(sql);
  return {
    async keep(runner, message, { attempts, error, delay }) {
      const parameters = [...parametersOf(message), attempts, storable(error), delay];
      return (await affected(runner, keep, parameters)) === 1;
    },

    async bury(runner, message, error) {
      return (await affected(runner, bury, [...parametersOf(message), storable(error)])) === 1;
    },

    store(runner, messages, claim) {
      const lines = messages.map(parametersOf);
      const columns: unknown[] = Array.from({ length: 9 }, (_, column) => lines.map((line) => line[column]));
      const claimed = messages.map((message) => claim?.messages.has(message) ?? false);
      return rows<StoredMessage>(runner, store, [
        ...columns,
        claimed,
        claim?.token ?? null,
        claim?.lease ?? 0,
      ]);
    },

    async isKeyOpen(runner, consumer, orderingKey) {
      const [row] = await rows<{ open: boolean }>(runner, isKeyOpen, [consumer, orderingKey]);
      return row?.open === true;
    },
  };
}
