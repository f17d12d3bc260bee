import type { InboxReplyStatements } from '../inbox-reply-statements';
import type { SqlTemplate } from '../table-names';
import { affected } from './execute';

/** $1 consumer, $2 message id, $3 reply. The row is the transaction's own. */
const keepReplySql = (sql: SqlTemplate): string =>
  sql(`UPDATE {} SET {reply} = $3::bytea WHERE {consumer} = $1 AND {message_id} = $2 AND {status} = 'done'`);

export function inboxReplies(sql: SqlTemplate): InboxReplyStatements {
  const keepReply = keepReplySql(sql);
  return {
    async keepReply(runner, { consumer, messageId }, reply) {
      await affected(runner, keepReply, [consumer, messageId, reply]);
    },
  };
}
