import type { QueryResult, QueryRunner } from 'typeorm';
import { ServerTooOldError } from '../server-too-old.error';
import { MINIMUM_SERVER } from './minimum-server';

/** Rows of a statement, in one shape whether it reads or writes. */
export async function rows<Row>(
  runner: QueryRunner,
  sql: string,
  parameters: unknown[] = [],
): Promise<Row[]> {
  const result = await send(runner, sql, parameters);
  return result.records as Row[];
}

/** Number of rows that a statement wrote. */
export async function affected(
  runner: QueryRunner,
  sql: string,
  parameters: unknown[] = [],
): Promise<number> {
  const result = await send(runner, sql, parameters);
  return result.affected ?? 0;
}

/** Syntax error; feature not supported. */
const REFUSED = new Set(['42601', '0A000']);

async function send(runner: QueryRunner, sql: string, parameters: unknown[]): Promise<QueryResult> {
  try {
    return await runner.query(sql, parameters, true);
  } catch (error) {
    // Taken for one of many errors it would be looked for in the wrong place.
    if (!sql.includes('SKIP LOCKED') || !REFUSED.has(String((error as { code?: unknown }).code))) throw error;
    throw new ServerTooOldError(MINIMUM_SERVER, `the server refuses it: ${String(error)}`, { cause: error });
  }
}
