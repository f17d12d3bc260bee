import { randomBytes } from 'node:crypto';
import type { Cleanup } from '../../01-claims/demo/cleanup';
import { Sql } from '../../01-claims/demo/sql';

/** A database of the demo's own, on whatever server; removed again by the cleanup. */
export async function temporaryDatabase(serverUrl: string, cleanup: Cleanup): Promise<Sql> {
  const server = await Sql.connect(serverUrl);
  cleanup.add(() => server.close());
  const name = `nightly_demo_${randomBytes(4).toString('hex')}`;
  await server.rows(`CREATE DATABASE "${name}" TEMPLATE template0`);
  cleanup.add(() => server.rows(`DROP DATABASE "${name}" WITH (FORCE)`));
  const url = new URL(serverUrl);
  url.pathname = `/${name}`;
  const sql = await Sql.connect(url.href);
  cleanup.add(() => sql.close());
  return sql;
}
