import type { DialectFactory } from '../dialect';
import { sqlTemplate } from '../table-names';
import { cancelStatement } from './cancel-statement';
import { columnsOf, isPartitioned, serverVersion } from './catalog';
import { inboxDeadLetters, outboxDeadLetters } from './dead-letters';
import { createTablesSql } from './ddl';
import { isConnectionFault, isRetryable } from './errors';
import { inboxDeliveries } from './inbox';
import { inboxFingerprints } from './inbox-fingerprints';
import { inboxReplies } from './inbox-replies';
import { inboxBatches } from './inbox-take-many';
import { inboxClaims } from './inbox-claim';
import { inboxKeeping } from './inbox-kept';
import { lockStatements } from './lock';
import { MINIMUM_SERVER } from './minimum-server';
import { outboxClaim } from './outbox-claim';
import { outboxCleanup } from './outbox-cleanup';
import { outboxInsert } from './outbox-insert';
import { outboxLocalClaim } from './outbox-local-claim';
import { outboxPending } from './outbox-pending';
import { outboxSettle } from './outbox-settle';
import { postgresSignals } from './signals';

/** PostgreSQL 13 and newer. Each statement has its SQL, and the reason for it, in a file of its own. */
export const createPostgresDialect: DialectFactory = (dataSource, tables) => {
  const outbox = sqlTemplate(dataSource, tables.outbox);
  const inbox = sqlTemplate(dataSource, tables.inbox);
  const lock = sqlTemplate(dataSource, tables.lock);
  return {
    family: 'postgres',
    minimumServer: MINIMUM_SERVER,
    outbox: {
      insert: outboxInsert(outbox),
      ...outboxClaim(outbox),
      ...outboxLocalClaim(outbox),
      settle: outboxSettle(outbox),
      deleteSent: outboxCleanup(outbox),
      ...outboxPending(outbox),
    },
    inbox: {
      ...inboxDeliveries(inbox),
      ...inboxKeeping(inbox),
      ...inboxClaims(inbox),
      ...inboxReplies(inbox),
      ...inboxBatches(inbox),
      ...inboxFingerprints(inbox),
    },
    lock: lockStatements(lock),
    deadLetters: { outbox: outboxDeadLetters(outbox), inbox: inboxDeadLetters(inbox) },
    openSignals: postgresSignals(dataSource, outbox),
    createTablesSql: () => createTablesSql(dataSource, tables),
    dropTablesSql: () => [inbox('DROP TABLE {}'), outbox('DROP TABLE {}')],
    serverVersion,
    existingColumns: async (runner) =>
      new Map([
        ['outbox', await columnsOf(runner, outbox)],
        ['inbox', await columnsOf(runner, inbox)],
        ['lock', await columnsOf(runner, lock)],
      ]),
    isInboxPartitioned: (runner) => isPartitioned(runner, inbox),
    cancelStatement,
    isRetryable,
    isConnectionFault,
  };
};
