import { DataSource } from 'typeorm';
import { createDialect } from '../../../../lib/persistence/dialects';
import { PostgresTransactionGuard } from '../../../../lib/persistence/postgres/transaction-status';
import { createTables } from '../../../../lib/persistence/tables';
import { installBridge } from '../../../../lib/transaction/bridge';
import { startPrivateDatabase } from '../../../support/private-database';
import { startTcpProxy } from '../../../support/tcp-proxy';
import { createTestDatabase } from '../../../support/test-database';
import { lockRow } from '../lock-row';
import type { LockConnection, LockDatabase, ShedLockStatements } from './lock-database';

export interface PostgresOptions {
  /** Settings of the session, for example `default_transaction_isolation=serializable`. */
  readonly settings?: readonly string[];
  /** Default 10. */
  readonly poolSize?: number;
  /** Default pg. */
  readonly driver?: unknown;
}

export async function connectPostgres(
  url: string,
  { settings = [], poolSize = 10, driver }: PostgresOptions = {},
): Promise<LockConnection> {
  const tables = createTables();
  const dataSource = await new DataSource({
    type: 'postgres',
    url,
    entities: Object.values(tables),
    poolSize,
    driver,
    extra: { application_name: 'locks', options: settings.map((each) => `-c ${each}`).join(' ') },
    poolErrorHandler: () => undefined,
  }).initialize();
  // As in an application: whatever runs inside a transaction would join it.
  const undo = installBridge(dataSource, new PostgresTransactionGuard());
  return {
    dataSource,
    dialect: createDialect(dataSource, tables),
    async close() {
      undo();
      await dataSource.destroy();
    },
  };
}

/** A private server, and on it the module's tables. */
export async function openPostgresLocks(): Promise<LockDatabase> {
  const server = await startPrivateDatabase({ config: { fsync: 'off' } });
  const database = await createTestDatabase({ serverUrl: server.url, prefix: 'locks' });
  const proxy = await startTcpProxy(database.url);
  const { dialect, close: closeFirst } = await connectPostgres(database.url);
  for (const sql of dialect.createTablesSql()) await database.query(sql);
  await closeFirst();
  return {
    shedLock: shedLockOnPostgres((sql, params) => database.query(sql, params)),
    env: { DATABASE: database.url },
    connect: ({ serializable, wire } = {}) =>
      connectPostgres(wire ? proxy.through(database.url) : database.url, {
        settings: serializable ? ['default_transaction_isolation=serializable'] : [],
      }),
    state: (name) => lockRow(database, name),
    async elapse(name, time) {
      await database.query(
        `UPDATE shedlock SET lock_until = lock_until - $2::int * interval '1 ms',
           locked_at = locked_at - $2::int * interval '1 ms' WHERE name = $1`,
        [name, time],
      );
    },
    async deleteRow(name) {
      await database.query('DELETE FROM shedlock WHERE name = $1', [name]);
    },
    async clear() {
      await database.query('TRUNCATE shedlock');
    },
    hold: () => proxy.hold('up'),
    resume: () => proxy.resume(),
    restart: () => server.restart(),
    async close() {
      await proxy.close();
      await database.close();
      await server.close();
    },
  };
}

/**
 * What the JDBC provider with `usingDbTime()` sends (its PostgresSqlServerTimeStatementsSource), with its parameters in
 * PostgreSQL's notation.
 */
export function shedLockOnPostgres(
  query: (sql: string, params: unknown[]) => Promise<unknown[]>,
): ShedLockStatements {
  const now = `timezone('utc', CURRENT_TIMESTAMP)`;
  const update = `SET lock_until = ${now} + cast($3 as interval), locked_at = ${now}, locked_by = $2
    WHERE shedlock.name = $1 AND shedlock.lock_until <= ${now}`;
  const atLeast = 'locked_at + cast($3 as interval)';
  const one = async (sql: string, name: string, owner: string, milliseconds: number) =>
    (await query(`${sql} RETURNING name`, [name, owner, `${milliseconds} milliseconds`])).length === 1;
  return {
    insert: (...args) =>
      one(
        `INSERT INTO shedlock(name, lock_until, locked_at, locked_by)
         VALUES($1, ${now} + cast($3 as interval), ${now}, $2) ON CONFLICT (name) DO UPDATE ${update}`,
        ...args,
      ),
    update: (...args) => one(`UPDATE shedlock ${update}`, ...args),
    extend: (...args) =>
      one(
        `UPDATE shedlock SET lock_until = ${now} + cast($3 as interval)
         WHERE name = $1 AND locked_by = $2 AND lock_until > ${now}`,
        ...args,
      ),
    unlock: (...args) =>
      one(
        `UPDATE shedlock SET lock_until = CASE WHEN ${atLeast} > ${now} THEN ${atLeast} ELSE ${now} END
         WHERE name = $1 AND locked_by = $2`,
        ...args,
      ),
  };
}
