import type { DataSource } from 'typeorm';
import type { Dialect, DialectFactory } from './dialect';
import { createPostgresDialect } from './postgres/postgres-dialect';
import type { InboxOutboxTables } from './tables';
import { UnsupportedDatabaseError } from './unsupported-database.error';

/** By TypeORM's name of the database. */
const dialects = new Map<string, DialectFactory>([['postgres', createPostgresDialect]]);

/**
 * The statements for the database of a data source, which has to know the module's entities.
 *
 * @throws {UnsupportedDatabaseError} naming what is supported
 */
export function createDialect(dataSource: DataSource, tables: InboxOutboxTables): Dialect {
  return factoryFor(dataSource)(dataSource, tables);
}

/** @throws {UnsupportedDatabaseError} naming what is supported */
export function factoryFor(dataSource: DataSource): DialectFactory {
  const { type } = dataSource.options;
  const factory = dialects.get(type);
  if (factory === undefined) throw new UnsupportedDatabaseError(type, [...dialects.keys()]);
  return factory;
}
