import { randomBytes } from 'node:crypto';
import { Client, Pool, QueryResultRow } from 'pg';
import { DATABASE_URL } from './servers';

export interface TestDatabaseOptions {
  /** Server to create it on. Default: the shared PostgreSQL (DATABASE_URL). */
  serverUrl?: string;
  /** Start of the database's name, so that a leftover tells which test made it. Default `test`. */
  prefix?: string;
}

export interface TestDatabase {
  readonly url: string;
  readonly name: string;
  /** As PostgreSQL says it, for example `15.20`. */
  readonly serverVersion: string;
  query<R extends QueryResultRow = Record<string, unknown>>(sql: string, params?: unknown[]): Promise<R[]>;
  /** Drops the database, whoever is still connected. May be called twice. */
  close(): Promise<void>;
}

/** A database of its own for one test file, on the shared server. */
export async function createTestDatabase(options: TestDatabaseOptions = {}): Promise<TestDatabase> {
  const { serverUrl = DATABASE_URL, prefix = 'test' } = options;
  const name = `${prefix}_${process.pid}_${randomBytes(4).toString('hex')}`.toLowerCase();
  const serverVersion = await onServer(serverUrl, async (client) => {
    // TEMPLATE template0: nobody else can be connected to it, so that parallel test files do not disturb each other.
    await client.query(`CREATE DATABASE ${client.escapeIdentifier(name)} TEMPLATE template0`);
    const { rows } = await client.query<{ server_version: string }>('SHOW server_version');
    return (rows[0]?.server_version ?? '').split(' ')[0] ?? '';
  });
  const url = new URL(serverUrl);
  url.pathname = `/${name}`;
  const pool = new Pool({ connectionString: url.href, max: 2, application_name: 'test-database' });
  // A cut or restarted server ends idle connections; without a listener that would end the test process.
  pool.on('error', () => undefined);

  let closing: Promise<void> | undefined;
  return {
    url: url.href,
    name,
    serverVersion,
    async query<R extends QueryResultRow>(sql: string, params: unknown[] = []) {
      // Without parameters the simple protocol is used, which allows several statements at once.
      const result = params.length ? await pool.query<R>(sql, params) : await pool.query<R>(sql);
      return result.rows;
    },
    close() {
      closing ??= drop(serverUrl, name, pool);
      return closing;
    },
  };
}

async function drop(serverUrl: string, name: string, pool: Pool): Promise<void> {
  await pool.end();
  await onServer(serverUrl, (client) =>
    client.query(`DROP DATABASE IF EXISTS ${client.escapeIdentifier(name)} WITH (FORCE)`),
  );
}

async function onServer<T>(connectionString: string, work: (client: Client) => Promise<T>): Promise<T> {
  const client = new Client({ connectionString, connectionTimeoutMillis: 10_000 });
  client.on('error', () => undefined);
  try {
    await client.connect();
  } catch (cause) {
    const { host } = new URL(connectionString);
    throw new Error(`No PostgreSQL answers at ${host}; run "npm run services" or set DATABASE_URL`, {
      cause,
    });
  }
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}
