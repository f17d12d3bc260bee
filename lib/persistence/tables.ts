import { EntitySchema, type EntitySchemaColumnOptions } from 'typeorm';
import { InvalidOptionError } from '../message/invalid-option.error';

/** Where the module's tables are. Everything has a default. */
export interface TableOptions {
  /** Schema of the three tables. Default: the data source's own (`search_path` where it has none). */
  schema?: string;
  /** Default `outbox_message`. */
  outboxTable?: string;
  /** Default `inbox_message`. */
  inboxTable?: string;
  /** Default `shedlock`: the table can be shared with ShedLock. */
  lockTable?: string;
}

/** The module's three tables as TypeORM entities. A type and not an interface, so that `Object.values()` knows the type. */
export type InboxOutboxTables = {
  readonly outbox: EntitySchema;
  readonly inbox: EntitySchema;
  readonly lock: EntitySchema;
};

type Columns = Record<string, EntitySchemaColumnOptions>;

const timestamp = { type: 'timestamp with time zone' } as const;
/** Ids and keys are compared byte by byte: with a language's collation 'a' and 'A' can be one id. */
const exact = { type: 'varchar', length: 255, collation: 'C' } as const;

const outboxColumns: Columns = {
  seq: { type: 'bigint', primary: true, generated: 'increment' },
  message_id: { ...exact },
  transport: { type: 'varchar', length: 16, default: 'rabbitmq' },
  exchange: { type: 'varchar', length: 255 },
  routing_key: { type: 'varchar', length: 255 },
  body: { type: 'text' },
  body_encoding: { type: 'varchar', length: 8, default: 'utf8' },
  headers: { type: 'text', nullable: true },
  properties: { type: 'text', nullable: true },
  ordering_key: { ...exact, nullable: true },
  deduplication_key: { ...exact, nullable: true },
  created_at: { ...timestamp, default: () => 'clock_timestamp()' },
  available_at: { ...timestamp, default: () => 'clock_timestamp()' },
  expires_at: { ...timestamp, nullable: true },
  status: { type: 'varchar', length: 16, default: 'ready' },
  attempts: { type: 'int', default: 0 },
  last_error: { type: 'text', nullable: true },
  retry: { type: 'text', nullable: true },
  claim_token: { type: 'uuid', nullable: true },
  claimed_until: { ...timestamp, nullable: true },
  /** Claimed, and it has an ordering key. Rows without one keep it false, so that a claim changes no column of an index. */
  holds_key: { type: 'boolean', default: false },
  settled_at: { ...timestamp, nullable: true },
};

const inboxColumns: Columns = {
  consumer: { ...exact, primary: true },
  message_id: { ...exact, primary: true },
  status: { type: 'varchar', length: 16 },
  attempts: { type: 'int', default: 0 },
  /** Order of storing: drawn anew when a row becomes `open`. */
  seq: { type: 'bigint', generated: 'increment' },
  received_at: { ...timestamp, default: () => 'clock_timestamp()' },
  processed_at: { ...timestamp, nullable: true },
  exchange: { type: 'varchar', length: 255, nullable: true },
  routing_key: { type: 'varchar', length: 255, nullable: true },
  redelivered: { type: 'boolean', default: false },
  body: { type: 'bytea', nullable: true },
  headers: { type: 'text', nullable: true },
  properties: { type: 'text', nullable: true },
  ordering_key: { ...exact, nullable: true },
  available_at: { ...timestamp, nullable: true },
  last_error: { type: 'text', nullable: true },
  claim_token: { type: 'uuid', nullable: true },
  claimed_until: { ...timestamp, nullable: true },
  fingerprint: { type: 'varchar', length: 64, nullable: true },
  reply: { type: 'bytea', nullable: true },
};

/** ShedLock's own columns and types (UTC without a zone), and `fence`, whose default lets ShedLock's statements work. */
const lockColumns: Columns = {
  name: { type: 'varchar', length: 64, primary: true },
  lock_until: { type: 'timestamp without time zone' },
  locked_at: { type: 'timestamp without time zone' },
  locked_by: { type: 'varchar', length: 255 },
  fence: { type: 'bigint', default: 0 },
};

/** PostgreSQL cuts longer names without a word, and the longest name made from a table's is `<table>_deduplication_key`. */
const MAX_NAME_BYTES = 63 - '_deduplication_key'.length;

function checkName(option: keyof TableOptions, name: string | undefined): void {
  if (name === undefined) return;
  const fits =
    typeof name === 'string' && /^[^."\0]+$/.test(name) && Buffer.byteLength(name) <= MAX_NAME_BYTES;
  if (!fits) {
    throw new InvalidOptionError(
      option,
      name,
      `a name of 1 to ${MAX_NAME_BYTES} bytes without dots and double quotes`,
    );
  }
}

/**
 * Builds the entities. Every column carries its database name as its property name, so that rows read by SQL and rows
 * read by a repository look alike.
 *
 * @throws {InvalidOptionError} for a name that cannot work
 */
export function createTables(options: TableOptions = {}): InboxOutboxTables {
  const {
    schema,
    outboxTable = 'outbox_message',
    inboxTable = 'inbox_message',
    lockTable = 'shedlock',
  } = options;
  checkName('schema', schema);
  checkName('outboxTable', outboxTable);
  checkName('inboxTable', inboxTable);
  checkName('lockTable', lockTable);
  const where = (table: string, columns: Columns) => ({
    tableName: table,
    columns: named(columns),
    ...(schema ? { schema } : {}),
  });
  return {
    outbox: new EntitySchema({
      name: `InboxOutbox.${outboxTable}`,
      ...where(outboxTable, outboxColumns),
      // Each index holds only the rows that its one reader looks for, so that rows planned for tomorrow, sent or dead
      // cost a claim nothing. None knows the columns that a claim of a message without a key writes: PostgreSQL then
      // leaves all indexes alone (a HOT update). Predicates name properties; TypeORM's `synchronize` takes them as they are, so with a naming
      // strategy that changes even explicit column names the tables have to come from the migration.
      indices: [
        { name: `${outboxTable}_message_id`, columns: ['message_id'], unique: true },
        {
          name: `${outboxTable}_deduplication_key`,
          columns: ['deduplication_key'],
          unique: true,
          where: 'deduplication_key IS NOT NULL',
        },
        // Two, so that looking for messages without a key never walks over a key's backlog, nor the other way round.
        {
          name: `${outboxTable}_ready`,
          columns: ['seq'],
          where: "status = 'ready' AND transport <> 'local' AND ordering_key IS NULL",
        },
        {
          name: `${outboxTable}_ready_key`,
          columns: ['seq'],
          where: "status = 'ready' AND transport <> 'local' AND ordering_key IS NOT NULL",
        },
        // By handler: messages that wait for one that nobody has here cost the others nothing.
        {
          name: `${outboxTable}_local`,
          columns: ['routing_key', 'seq'],
          where: "status = 'ready' AND transport = 'local'",
        },
        {
          name: `${outboxTable}_local_key`,
          columns: ['routing_key', 'seq'],
          where: "status = 'ready' AND transport = 'local' AND ordering_key IS NOT NULL",
        },
        { name: `${outboxTable}_scheduled`, columns: ['available_at'], where: "status = 'scheduled'" },
        {
          name: `${outboxTable}_busy_key`,
          columns: ['ordering_key', 'seq'],
          where:
            "ordering_key IS NOT NULL AND status IN ('ready', 'scheduled') AND (holds_key OR attempts > 0)",
        },
        {
          name: `${outboxTable}_dead_key`,
          columns: ['ordering_key'],
          where: "status = 'dead' AND ordering_key IS NOT NULL",
        },
        { name: `${outboxTable}_dead`, columns: ['seq'], where: "status = 'dead'" },
        {
          name: `${outboxTable}_settled`,
          columns: ['settled_at'],
          where: "status = 'sent' AND deduplication_key IS NULL",
        },
        {
          name: `${outboxTable}_remembered`,
          columns: ['settled_at'],
          where: "status = 'sent' AND deduplication_key IS NOT NULL",
        },
      ],
    }),
    inbox: new EntitySchema({
      name: `InboxOutbox.${inboxTable}`,
      ...where(inboxTable, inboxColumns),
      indices: [
        { name: `${inboxTable}_open`, columns: ['available_at'], where: "status IN ('open', 'in_progress')" },
        // Keys that wait: one of theirs is in progress, or was and failed.
        {
          name: `${inboxTable}_busy_key`,
          columns: ['consumer', 'ordering_key'],
          where:
            "ordering_key IS NOT NULL AND status IN ('open', 'in_progress') AND (status = 'in_progress' OR attempts > 0)",
        },
        {
          name: `${inboxTable}_open_key`,
          columns: ['consumer', 'ordering_key', 'seq'],
          where: "ordering_key IS NOT NULL AND status IN ('open', 'in_progress')",
        },
        { name: `${inboxTable}_dead`, columns: ['seq'], where: "status = 'dead'" },
        {
          name: `${inboxTable}_fingerprint`,
          columns: ['consumer', 'fingerprint'],
          where: 'fingerprint IS NOT NULL',
        },
        { name: `${inboxTable}_processed`, columns: ['processed_at'], where: "status = 'done'" },
      ],
    }),
    lock: new EntitySchema({ name: `InboxOutbox.${lockTable}`, ...where(lockTable, lockColumns) }),
  };
}

function named(columns: Columns): Columns {
  return Object.fromEntries(Object.entries(columns).map(([name, column]) => [name, { ...column, name }]));
}
