import type { EntitySchema } from 'typeorm';
import { InvalidOptionError } from '../message/invalid-option.error';
import { createTables, type InboxOutboxTables, type TableOptions } from './tables';

const known = new Map<string, InboxOutboxTables>();

/**
 * The tables for these options; the same objects for the same options, since TypeORM would take two equal entities for two
 * tables.
 *
 * @throws {InvalidOptionError} for a name that cannot work, or that two tables share
 */
export function inboxOutboxTables(options: TableOptions = {}): InboxOutboxTables {
  const { schema, outboxTable, inboxTable, lockTable } = options;
  const key = JSON.stringify([schema, outboxTable, inboxTable, lockTable]);
  const tables = known.get(key) ?? createTables({ schema, outboxTable, inboxTable, lockTable });
  const names = Object.values(tables).map((table: EntitySchema) => table.options.tableName);
  if (new Set(names).size < names.length) {
    throw new InvalidOptionError('outboxTable, inboxTable, lockTable', names, 'three different names');
  }
  known.set(key, tables);
  return tables;
}

/**
 * The module's entities, for the `entities` of a data source without `autoLoadEntities`.
 *
 * @param options the same table options as given to the module
 */
export function inboxOutboxEntities(options: TableOptions = {}): EntitySchema[] {
  return Object.values(inboxOutboxTables(options));
}
