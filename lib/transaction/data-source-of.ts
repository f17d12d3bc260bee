import type { DataSource } from 'typeorm';

/** The data source of a manager, runner or query builder. TypeORM 0.3 knows it under its older name only. */
export function dataSourceOf(owner: { readonly dataSource?: DataSource }): DataSource {
  const { dataSource, connection } = owner as { dataSource?: DataSource; connection?: DataSource };
  return (dataSource ?? connection) as DataSource;
}
