import type { SqlTemplate } from '../table-names';

/** Tells our advisory locks from those of the application; the letters "ioob". */
const NAMESPACE = 0x696f6f62;

/**
 * Ordering keys share this many locks. With a lock per key, 20,000 keys in one transaction end in "out of shared memory".
 */
const KEY_SLOTS = 1024;

/** The first number behind the key slots. */
const CLAIM_SLOT = KEY_SLOTS;

/**
 * First number of our two-number locks. The table's oid is part of it, so that outbox tables in one database do not wait
 * for each other; taken from the server, because the same table can be named with and without its schema.
 */
function namespace(sql: SqlTemplate): string {
  return `${NAMESPACE} # '${sql('{}').replaceAll("'", "''")}'::regclass::oid::int`;
}

/** Locks the slot until the transaction ends. */
export const lockKeySlot = (sql: SqlTemplate, slot: string): string =>
  `pg_advisory_xact_lock(${namespace(sql)}, ${slot})`;

export const keySlot = (key: string): string => `hashtext(${key}) & ${KEY_SLOTS - 1}`;

/** Lets one claim at a time run on the table, until the transaction ends. Transaction poolers do not mind it. */
export const lockClaims = (sql: SqlTemplate): string =>
  `pg_advisory_xact_lock(${namespace(sql)}, ${CLAIM_SLOT})`;
