import type { DataSource, EntitySchema } from 'typeorm';

/**
 * Turns SQL with placeholders into SQL for the data source at hand. `{}` is the table, `{column}` one of its columns,
 * both quoted and as TypeORM's metadata has them: naming strategy, prefix and schema included.
 */
export type SqlTemplate = (sql: string) => string;

export function sqlTemplate(dataSource: DataSource, table: EntitySchema): SqlTemplate {
  const metadata = dataSource.getMetadata(table);
  const quote = (name: string) => dataSource.driver.escape(name);
  const path = metadata.tablePath.split('.').map(quote).join('.');
  const columns = new Map(
    metadata.columns.map((column) => [column.propertyName, quote(column.databaseName)]),
  );
  return (sql) =>
    sql.replace(/\{(\w*)\}/g, (_, name: string) => {
      if (name === '') return path;
      const column = columns.get(name);
      if (column === undefined) throw new Error(`No column "${name}" in ${path}`);
      return column;
    });
}
