import type { ClaimedMessage } from '../outbox-statements';
import { epochText, toDate } from './sql-values';

/** What a claim returns of a row, as it comes from the database. */
export type ClaimedRow = Omit<ClaimedMessage, 'createdAt'> & { readonly createdAt: string };

/** The columns of a {@link ClaimedRow}. */
export const claimedColumns = (row: string): string =>
  `${row}.{seq}::text AS "seq", ${row}.{message_id} AS "messageId",
    ${row}.{transport} AS "transport", ${row}.{exchange} AS "exchange",
    ${row}.{routing_key} AS "routingKey", ${row}.{body} AS "body", ${row}.{body_encoding} AS "bodyEncoding",
    ${row}.{headers} AS "headers", ${row}.{properties} AS "properties", ${row}.{ordering_key} AS "orderingKey",
    ${row}.{attempts} AS "attempts", ${row}.{retry} AS "retry", ${epochText(`${row}.{created_at}`)} AS "createdAt",
    coalesce(${row}.{expires_at} <= statement_timestamp(), false) AS "expired"`;

export const toClaimedMessage = (row: ClaimedRow): ClaimedMessage => ({
  ...row,
  createdAt: toDate(row.createdAt),
});
