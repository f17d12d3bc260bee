import type { EntitySchema } from 'typeorm';
import { InvalidOptionError } from '../message/invalid-option.error';
import { createTables, type InboxOutboxTables, type TableOptions } from './tables';

const known = new Map<string, InboxOutboxTables>();

/** Longest name with which the names of the indexes still fit into PostgreSQL's 63 bytes. */
const MAX_NAME_BYTES = 44;

/**
 * The tables for these options; the same objects for the same options, since TypeORM would take two equal entities for two
 * tables.
 *
 * @throws {InvalidOptionError} for a name that is empty or too long, or that two tables share
 */
export function inboxOutboxTables(options: TableOptions = {}): InboxOutboxTables {
  const { schema, outboxTable, inboxTable, lockTable } = options;
  for (const [option, name] of Object.entries({ schema, outboxTable, inboxTable, lockTable })) {
    if (
      name !== undefined &&
      (typeof name !== 'string' || name === '' || Buffer.byteLength(name) > MAX_NAME_BYTES)
    ) {
      throw new InvalidOptionError(option, name, `a name of at most ${MAX_NAME_BYTES} bytes`);
    }
  }
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
