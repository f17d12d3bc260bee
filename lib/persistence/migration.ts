import { DataSource, type MigrationInterface, type QueryRunner } from 'typeorm';
import type { Dialect } from './dialect';
import { factoryFor } from './dialects';
import { createTables, type TableOptions } from './tables';

/** TypeORM orders migrations by the 13 digits at the end of their names. */
const NAME = 'CreateInboxOutboxTables1764547200000';

/**
 * A TypeORM migration that creates the module's tables under the names that the module was given, with the data source's
 * naming strategy, prefix and schema. The data source need not list the module's entities.
 *
 * The lock table is created only when it is missing, and gets the column `fence` when it is ShedLock's own; the way down
 * leaves it, because others may use it.
 *
 * @example migrations: [createInboxOutboxMigration({ schema: 'messaging' })]
 */
export function createInboxOutboxMigration(options: TableOptions = {}): new () => MigrationInterface {
  return class implements MigrationInterface {
    readonly name = NAME;

    async up(runner: QueryRunner): Promise<void> {
      for (const statement of (await dialectOf(runner.dataSource, options)).createTablesSql()) {
        await runner.query(statement);
      }
    }

    async down(runner: QueryRunner): Promise<void> {
      for (const statement of (await dialectOf(runner.dataSource, options)).dropTablesSql()) {
        await runner.query(statement);
      }
    }
  };
}

/** The migration for the default names, as a class for `migrations: [CreateInboxOutboxTables1764547200000]`. */
export class CreateInboxOutboxTables1764547200000 extends createInboxOutboxMigration() {}

/**
 * The dialect by a data source that is never connected and knows our entities only: that of a migration run often lists
 * none, and names must come out as they would with it.
 */
export async function dialectOf(dataSource: DataSource, options: TableOptions = {}): Promise<Dialect> {
  const tables = createTables(options);
  const names = new DataSource({
    ...dataSource.options,
    entities: Object.values(tables),
    subscribers: [],
    migrations: [],
    cache: false,
  });
  await names['buildMetadatas']();
  return factoryFor(names)(names, tables);
}
