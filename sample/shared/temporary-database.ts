import { randomBytes } from 'node:crypto';
import type { Cleanup } from './cleanup';
import { Sql } from './sql';

/** A database of the demo's own, on whatever server; removed again by the cleanup. */
export async function temporaryDatabase(serverUrl: string, name: string, cleanup: Cleanup): Promise<Sql> {
  const server = await Sql.connect(serverUrl);
  cleanup.add(() => server.close());
  const database = `demo_${name}_${randomBytes(4).toString('hex')}`;
  await server.rows(`CREATE DATABASE "${database}" TEMPLATE template0`);
  cleanup.add(() => server.rows(`DROP DATABASE "${database}" WITH (FORCE)`));
  const url = new URL(serverUrl);
  url.pathname = `/${database}`;
  const sql = await Sql.connect(url.href);
  cleanup.add(() => sql.close());
  return sql;
}
