import { DataSource, type QueryRunner } from 'typeorm';
import type { Dialect } from '../../../lib/persistence/dialect';
import { createDialect } from '../../../lib/persistence/dialects';
import { createTables, type InboxOutboxTables, type TableOptions } from '../../../lib/persistence/tables';
import { createTestDatabase, type TestDatabase } from '../../support/test-database';
import { waitFor } from '../../support/wait-for';

/** A database of its own with the module's tables, and the statements for it. */
export interface Postgres {
  readonly database: TestDatabase;
  readonly dataSource: DataSource;
  readonly tables: InboxOutboxTables;
  readonly dialect: Dialect;
  /** Runs work on a runner of its own, which is released in any case. */
  withRunner<T>(work: (runner: QueryRunner) => Promise<T>): Promise<T>;
  close(): Promise<void>;
}

export type ConnectOptions = Partial<
  Extract<DataSource['options'], { type: 'postgres' }> & { tables: TableOptions }
>;

export async function openPostgres(options: ConnectOptions = {}): Promise<Postgres> {
  const database = await createTestDatabase();
  const { tables: tableOptions, ...others } = options;
  const tables = createTables(tableOptions);
  const dataSource = await new DataSource({
    type: 'postgres',
    url: database.url,
    entities: Object.values(tables),
    synchronize: true,
    poolSize: 20,
    ...others,
  }).initialize();
  return {
    database,
    dataSource,
    tables,
    dialect: createDialect(dataSource, tables),
    async withRunner(work) {
      const runner = dataSource.createQueryRunner();
      try {
        return await work(runner);
      } finally {
        await runner.release();
      }
    },
    async close() {
      await dataSource.destroy();
      await database.close();
    },
  };
}

/** A short READ COMMITTED transaction, as the statements expect it. */
export async function inTransaction<T>(
  runner: QueryRunner,
  work: (runner: QueryRunner) => Promise<T>,
): Promise<T> {
  await runner.startTransaction('READ COMMITTED');
  try {
    const result = await work(runner);
    await runner.commitTransaction();
    return result;
  } catch (error) {
    await runner.rollbackTransaction();
    throw error;
  }
}

/** Until some connection of the database waits for a lock. */
export async function waitUntilBlocked({ database }: Postgres): Promise<void> {
  await waitFor(
    'a connection that waits for a lock',
    async () =>
      (
        await database.query(
          `SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
        )
      ).length > 0,
    { interval: 5 },
  );
}
