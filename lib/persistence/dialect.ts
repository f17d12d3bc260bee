import type { DataSource, QueryRunner } from 'typeorm';
import type { DeadLetterStatements } from './dead-letter-statements';
import type { InboxStatements } from './inbox-statements';
import type { LocalOutboxStatements } from './local-outbox-statements';
import type { LockStatements } from './lock-statements';
import type { OutboxStatements } from './outbox-statements';
import type { PendingMessageStatements } from './pending-message-statements';
import type { OpenSignals } from './signals';
import type { InboxOutboxTables } from './tables';

/** Everything in which a database family differs from the others. One folder beside this file implements it. */
export interface Dialect {
  readonly family: 'postgres';
  /** Oldest server version that works, as in the error for an older one. */
  readonly minimumServer: string;
  readonly outbox: OutboxStatements & LocalOutboxStatements & PendingMessageStatements;
  readonly inbox: InboxStatements;
  readonly lock: LockStatements;
  readonly deadLetters: Readonly<Record<'outbox' | 'inbox', DeadLetterStatements>>;
  /** How processes tell each other of new messages in the outbox; left out where the database has no way to. */
  readonly openSignals?: OpenSignals;

  /** The DDL of the three tables, statement by statement, with the data source's names. */
  createTablesSql(): string[];

  /** Takes it back, but for the lock table, which others may use. */
  dropTablesSql(): string[];

  /** Version of the server, comparable with `minimumServer`. */
  serverVersion(runner: QueryRunner): Promise<{ text: string; supported: boolean }>;

  /** Columns that the database really has, by table path; a missing table is an empty set. */
  existingColumns(runner: QueryRunner): Promise<Map<'outbox' | 'inbox' | 'lock', Set<string>>>;

  /** Whether the inbox table is partitioned: its kept messages are claimed by their place in it, which partitions share. */
  isInboxPartitioned(runner: QueryRunner): Promise<boolean>;

  /**
   * Ends the statement that is running on the victim's connection, if there is one.
   *
   * @param other has another connection
   */
  cancelStatement(victim: QueryRunner, other: QueryRunner): Promise<void>;

  /** Serialization failure or deadlock: the whole transaction may be run again at once. */
  isRetryable(error: unknown): boolean;

  /**
   * The server or the way to it is gone: nothing about the statement itself was wrong. To be asked about errors of
   * database calls; a handler's own ECONNREFUSED may come from any other server.
   */
  isConnectionFault(error: unknown): boolean;
}

/** The data source has to know the module's entities; it need not be connected. */
export type DialectFactory = (dataSource: DataSource, tables: InboxOutboxTables) => Dialect;
