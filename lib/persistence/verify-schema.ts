import type { DataSource } from 'typeorm';
import type { Dialect } from './dialect';
import { InboxOutboxSchemaError } from './schema.error';
import { ServerTooOldError } from './server-too-old.error';
import type { InboxOutboxTables } from './tables';

/** @throws {InboxOutboxSchemaError} when the data source does not know the module's entities */
export function verifyEntities(
  dataSourceName: string,
  dataSource: DataSource,
  tables: InboxOutboxTables,
): void {
  const unknown = Object.values(tables).filter((table) => !dataSource.hasMetadata(table));
  if (unknown.length > 0) {
    throw new InboxOutboxSchemaError(
      unknown.map(
        (table) => `the data source "${dataSourceName}" does not know the entity "${table.options.name}"`,
      ),
      'Remedy: set `autoLoadEntities: true` in TypeOrmModule.forRoot(), or add `...inboxOutboxEntities()` to its `entities` (with the same table options as given to the module).',
    );
  }
}

/**
 * Compares the tables in the database with what the statements need.
 *
 * @throws {InboxOutboxSchemaError} naming every missing table and column
 * @throws {ServerTooOldError}
 */
export async function verifySchema(
  dataSource: DataSource,
  tables: InboxOutboxTables,
  dialect: Dialect,
): Promise<void> {
  const runner = dataSource.createQueryRunner();
  try {
    const version = await dialect.serverVersion(runner);
    if (!version.supported) {
      throw new ServerTooOldError(dialect.minimumServer, `the server is ${version.text}`);
    }
    const existing = await dialect.existingColumns(runner);
    const problems: string[] = [];
    for (const [name, table] of Object.entries(tables) as [
      keyof InboxOutboxTables,
      InboxOutboxTables['outbox'],
    ][]) {
      const { tablePath, columns } = dataSource.getMetadata(table);
      const found = existing.get(name) ?? new Set<string>();
      if (found.size === 0) {
        problems.push(`the table "${tablePath}" does not exist`);
        continue;
      }
      for (const { databaseName } of columns) {
        if (!found.has(databaseName))
          problems.push(`the table "${tablePath}" has no column "${databaseName}"`);
      }
    }
    if (await dialect.isInboxPartitioned(runner)) {
      const { tablePath } = dataSource.getMetadata(tables.inbox);
      problems.push(
        `the table "${tablePath}" is partitioned, and kept messages are claimed by their place in it`,
      );
    }
    if (problems.length > 0) {
      throw new InboxOutboxSchemaError(
        problems,
        `Remedy: \`synchronize: true\` (development), the exported TypeORM migration, or the SQL file sql/${dialect.family}.sql of this package.`,
      );
    }
  } finally {
    await runner.release();
  }
}
