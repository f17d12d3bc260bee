import fs from 'node:fs';
import path from 'node:path';
import pg from 'pg';
import postgres from './postgres-cluster.js';
import { DEFAULT_DATABASE_URL, databaseUrl, servicesFolder } from './server-urls.js';

/** What `npm run services` has to know about PostgreSQL. */
export const postgresService = {
  name: 'PostgreSQL',
  variable: 'DATABASE_URL',
  setting: 'databaseUrl',
  wantedUrl: databaseUrl,
  defaultUrl: DEFAULT_DATABASE_URL,
  port: 5432,
  container: { image: 'postgres:17', env: { POSTGRES_PASSWORD: 'postgres' } },
  packageName: 'postgresql',

  /** Logs in and looks whether databases can be made, for each test file makes its own. */
  async logIn(url) {
    const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 5_000 });
    client.on('error', () => undefined);
    try {
      await client.connect();
      const { rows } = await client.query(
        `SELECT split_part(current_setting('server_version'), ' ', 1) AS version, rolcreatedb OR rolsuper AS allowed
           FROM pg_roles WHERE rolname = current_user`,
      );
      if (!rows[0].allowed) throw new Error('this user may not create databases');
      return rows[0].version;
    } finally {
      await client.end().catch(() => undefined);
    }
  },

  /** A cluster of our own from what is installed (system first, else the one that npm has installed). */
  start(port) {
    const found = postgres.findPostgres('system');
    if (!found) return undefined;
    // One data folder per major version: a newer server cannot read an older one's.
    const folder = path.join(servicesFolder, `postgresql-${found.version.split('.')[0]}-${port}`);
    const dataFolder = path.join(folder, 'data');
    const logFile = path.join(folder, 'server.log');
    fs.mkdirSync(folder, { recursive: true, mode: 0o711 });
    if (!fs.existsSync(path.join(dataFolder, 'PG_VERSION')))
      postgres.createCluster({ bin: found.bin, dataFolder });
    const config = { max_connections: 200 };
    const child = postgres.spawnPostgres({ ...found, dataFolder, port, logFile, config, detached: true });
    return { child, logFile, what: `the PostgreSQL of ${found.bin}` };
  },
};
