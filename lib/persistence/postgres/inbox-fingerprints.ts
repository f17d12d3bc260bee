import type { InboxFingerprintStatements } from '../inbox-fingerprint-statements';
import type { SqlTemplate } from '../table-names';
import { rows } from './execute';

/** One round trip for both. Repeats that run at the same time do not see each other. $1 consumer, $2 message id, $3 hash. */
const noteFingerprintSql = (sql: SqlTemplate): string =>
  sql(`
  WITH noted AS (
    UPDATE {} SET {fingerprint} = $3 WHERE {consumer} = $1 AND {message_id} = $2 AND {status} = 'done'
  )
  SELECT {message_id} AS id FROM {} WHERE {consumer} = $1 AND {fingerprint} = $3 AND {message_id} <> $2 LIMIT 1`);

export function inboxFingerprints(sql: SqlTemplate): InboxFingerprintStatements {
  const noteFingerprint = noteFingerprintSql(sql);
  return {
    async noteFingerprint(runner, { consumer, messageId }, hash) {
      const [other] = await rows<{ id: string }>(runner, noteFingerprint, [consumer, messageId, hash]);
      return other?.id;
    },
  };
}
