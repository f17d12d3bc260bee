import type { DataSource, EntityMetadata, EntitySchema } from 'typeorm';
import type { ColumnMetadata } from 'typeorm/metadata/ColumnMetadata.js';
import type { IndexMetadata } from 'typeorm/metadata/IndexMetadata.js';
import { sqlTemplate } from '../table-names';
import type { InboxOutboxTables } from '../tables';

/**
 * The DDL of the three tables, made from the entities, so that there is one place that says what they look like: the
 * migration, the printed SQL file and TypeORM's schema builder cannot disagree.
 *
 * The lock table may be there already, with ShedLock's columns only; then it gets the missing one.
 */
export function createTablesSql(dataSource: DataSource, tables: InboxOutboxTables): string[] {
  const quote = (name: string) => dataSource.driver.escape(name);
  const statements = (table: EntitySchema, ifNotExists = '', storage = '') => {
    const path = sqlTemplate(dataSource, table)('{}');
    const { columns, primaryColumns, indices } = dataSource.getMetadata(table);
    const key = primaryColumns.map(({ databaseName }) => quote(databaseName)).join(', ');
    const lines = [...columns.map((each) => columnSql(dataSource, each)), `PRIMARY KEY (${key})`];
    return [
      `CREATE TABLE ${ifNotExists}${path} (\n  ${lines.join(',\n  ')}\n)${storage}`,
      ...indices.map((each) => indexSql(path, each, quote)),
    ];
  };
  const lock = dataSource.getMetadata(tables.lock);
  const fence = lock.columns.find(({ propertyName }) => propertyName === 'fence')!;
  return [
    // Room on each page for the second version of its rows, so that a claim stays on the page and out of the indexes.
    ...statements(tables.outbox, '', ' WITH (fillfactor = 50)'),
    ...statements(tables.inbox),
    ...statements(tables.lock, 'IF NOT EXISTS '),
    `ALTER TABLE ${sqlTemplate(dataSource, tables.lock)('{}')} ADD COLUMN IF NOT EXISTS ${columnSql(dataSource, fence)}`,
  ];
}

function indexSql(path: string, index: IndexMetadata, quote: (name: string) => string): string {
  const columns = index.columns.map(({ databaseName }) => quote(databaseName)).join(', ');
  const where = index.where ? `\n  WHERE ${predicate(index.where, index.entityMetadata, quote)}` : '';
  return `CREATE ${index.isUnique ? 'UNIQUE ' : ''}INDEX ${quote(index.name)} ON ${path} (${columns})${where}`;
}

function columnSql(dataSource: DataSource, column: ColumnMetadata): string {
  return `${dataSource.driver.escape(column.databaseName)} ${definition(dataSource, column)}`;
}

function definition(dataSource: DataSource, column: ColumnMetadata): string {
  const { driver } = dataSource;
  if (column.isGenerated) return 'bigserial NOT NULL';
  const type = driver.normalizeType(column);
  return [
    column.length ? `${type}(${column.length})` : type,
    column.collation ? `COLLATE ${driver.escape(column.collation)}` : '',
    column.isNullable ? '' : 'NOT NULL',
    column.default === undefined ? '' : `DEFAULT ${driver.normalizeDefault(column)}`,
  ]
    .filter(Boolean)
    .join(' ');
}

/** Index predicates in the entities name properties; in the database the columns may be called otherwise. */
function predicate(where: string, metadata: EntityMetadata, quote: (name: string) => string): string {
  return where.replace(/[a-z_]+/g, (word) => {
    const column = metadata.columns.find(({ propertyName }) => propertyName === word);
    return column ? quote(column.databaseName) : word;
  });
}
