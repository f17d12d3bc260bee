import type { QueryRunner } from 'typeorm';

/** Rows of a statement, in one shape whether it reads or writes. */
export async function rows<Row>(
  runner: QueryRunner,
  sql: string,
  parameters: unknown[] = [],
): Promise<Row[]> {
  const result = await runner.query(sql, parameters, true);
  return result.records as Row[];
}

/** Number of rows that a statement wrote. */
export async function affected(
  runner: QueryRunner,
  sql: string,
  parameters: unknown[] = [],
): Promise<number> {
  const result = await runner.query(sql, parameters, true);
  return result.affected ?? 0;
}
