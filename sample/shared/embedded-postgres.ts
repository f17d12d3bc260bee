import { rmSync } from 'node:fs';
import { chmod, mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from './free-port';
import { loadPrograms } from './postgres-programs';

export interface PostgresServer {
  readonly url: string;
  stop(): Promise<void>;
}

/** A real PostgreSQL out of an npm package, in a temporary folder, for as long as the demo runs. */
export async function startPostgres(): Promise<PostgresServer> {
  const folder = await mkdtemp(join(tmpdir(), 'demo-postgres-'));
  // Also after Ctrl-C: the package stops its server then, and ends this process.
  process.once('exit', () => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
  const log: string[] = [];
  try {
    // PostgreSQL's own user, where there is one, has to get through.
    await chmod(folder, 0o755);
    const EmbeddedPostgres = loadPrograms(folder);
    const port = await freePort();
    const server = new EmbeddedPostgres({
      databaseDir: join(folder, 'data'),
      port,
      user: 'postgres',
      password: 'postgres',
      // PostgreSQL refuses to run as root, as which containers often run. It then gets a user of its own.
      createPostgresUser: process.getuid?.() === 0,
      initdbFlags: ['--no-sync'],
      postgresFlags: ['-c', 'listen_addresses=127.0.0.1', '-c', 'unix_socket_directories='],
      onLog: (message) => log.push(String(message)),
      onError: (message) => log.push(String(message)),
    });
    await server.initialise();
    await server.start();
    const url = `postgres://postgres:postgres@127.0.0.1:${port}/postgres`;
    return { url, stop: () => server.stop() };
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : 'it ended at once';
    throw new Error(
      `The embedded PostgreSQL does not start: ${reason}\n${log.join('')}\nSet DATABASE_URL, and AMQP_URL where there are messages, to use servers.`,
      { cause },
    );
  }
}
