import type { QueryResult, QueryRunner } from 'typeorm';
import { ServerTooOldError } from '../server-too-old.error';
import { MINIMUM_SERVER } from './minimum-server';

/** Rows of a statement, in one shape whether it reads or writes. */
export function rows<Row>(runner: QueryRunner, sql: string, parameters: unknown[] = []): Promise<Row[]> {
  return send(runner, sql, parameters).then((result) => result.records as Row[]);
}

/** Number of rows that a statement wrote. */
export function affected(runner: QueryRunner, sql: string, parameters: unknown[] = []): Promise<number> {
  return send(runner, sql, parameters).then((result) => result.affected ?? 0);
}

/** Whether a statement gave a row. */
export function hasRow(runner: QueryRunner, sql: string, parameters: unknown[]): Promise<boolean> {
  return send(runner, sql, parameters).then((result) => (result.records as unknown[]).length > 0);
}

/** Syntax error; feature not supported. */
const REFUSED = new Set(['42601', '0A000']);

function send(runner: QueryRunner, sql: string, parameters: unknown[]): Promise<QueryResult> {
  const sent = runner.query(sql, parameters, true);
  if (!sql.includes('SKIP LOCKED')) return sent;
  return sent.catch((error: unknown) => {
    // Taken for one of many errors it would be looked for in the wrong place.
    if (!REFUSED.has(String((error as { code?: unknown }).code))) throw error;
    throw new ServerTooOldError(MINIMUM_SERVER, `the server refuses it: ${String(error)}`, { cause: error });
  });
}
