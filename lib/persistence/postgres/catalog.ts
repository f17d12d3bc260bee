import type { QueryRunner } from 'typeorm';
import type { SqlTemplate } from '../table-names';
import { rows } from './execute';
import { MINIMUM_SERVER_NUMBER } from './minimum-server';

export async function serverVersion(runner: QueryRunner): Promise<{ text: string; supported: boolean }> {
  const [row] = await rows<{ text: string; number: string }>(
    runner,
    `SELECT current_setting('server_version') AS text, current_setting('server_version_num') AS number`,
  );
  return { text: `PostgreSQL ${row?.text}`, supported: Number(row?.number) >= MINIMUM_SERVER_NUMBER };
}

/** Empty when there is no such table: `to_regclass` then answers null. */
export async function columnsOf(runner: QueryRunner, sql: SqlTemplate): Promise<Set<string>> {
  const found = await rows<{ name: string }>(
    runner,
    `SELECT attname::text AS name FROM pg_attribute
    WHERE attrelid = to_regclass($1::text) AND attnum > 0 AND NOT attisdropped`,
    [sql('{}')],
  );
  return new Set(found.map(({ name }) => name));
}

export async function isPartitioned(runner: QueryRunner, sql: SqlTemplate): Promise<boolean> {
  const [row] = await rows<{ kind: string }>(
    runner,
    'SELECT relkind::text AS kind FROM pg_class WHERE oid = to_regclass($1::text)',
    [sql('{}')],
  );
  return row?.kind === 'p';
}
