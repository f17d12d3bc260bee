import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import { createCluster, findPostgres, spawnPostgres } from '../services/postgres-cluster';
import { freePorts } from './free-ports';
import { ServerProcess } from './server-process';

export interface PrivateDatabaseOptions {
  /** Settings as in postgresql.conf, for example `{ max_connections: 5 }`. */
  config?: Record<string, string | number>;
}

/** As `pg_ctl stop -m`: waits for clients to leave; throws them out and rolls back; dies without a checkpoint. */
export type StopMode = 'smart' | 'fast' | 'immediate';

export interface PrivateDatabase {
  /** Superuser on database `postgres`; fits `createTestDatabase({ serverUrl })`. The same after every restart. */
  readonly url: string;
  readonly port: number;
  readonly version: string;
  /** Resolves when the server has ended. Default `fast`. */
  stop(mode?: StopMode): Promise<void>;
  /** Resolves when it answers. With other settings from now on, if given. */
  start(config?: PrivateDatabaseOptions['config']): Promise<void>;
  restart(mode?: StopMode): Promise<void>;
  /** SIGKILL to the server: a crash. Its data is recovered by `start()`. */
  kill(): Promise<void>;
  close(): Promise<void>;
}

const SIGNALS: Record<StopMode, NodeJS.Signals> = { smart: 'SIGTERM', fast: 'SIGINT', immediate: 'SIGQUIT' };

/**
 * A PostgreSQL that a test may stop, crash and restart. It prefers the version that npm has installed (the same
 * everywhere) and falls back on an installed one. About 1 to 2 s to start.
 */
export async function startPrivateDatabase(options: PrivateDatabaseOptions = {}): Promise<PrivateDatabase> {
  const found = findPostgres('npm');
  if (!found)
    throw new Error('No PostgreSQL: run npm install with optional dependencies, or install postgresql');
  const folder = mkdtempSync(join(tmpdir(), 'private-database-'));
  chmodSync(folder, 0o711); // the server may run as another user than the test
  const [port = 0] = await freePorts(1);
  const server = new PrivatePostgres(found.bin, found.version, folder, port, options.config ?? {});
  try {
    createCluster({ bin: found.bin, dataFolder: server.dataFolder });
    await server.start();
  } catch (error) {
    await server.close();
    throw error;
  }
  return server;
}

class PrivatePostgres implements PrivateDatabase {
  readonly url: string;
  readonly dataFolder: string;
  private readonly process: ServerProcess;

  constructor(
    bin: string,
    readonly version: string,
    private readonly folder: string,
    readonly port: number,
    private config: Record<string, string | number>,
  ) {
    this.url = `postgres://postgres:postgres@127.0.0.1:${port}/postgres`;
    const dataFolder = join(folder, 'data');
    this.dataFolder = dataFolder;
    const logFile = join(folder, 'server.log');
    this.process = new ServerProcess({
      name: `PostgreSQL on port ${port}`,
      logFile,
      spawn: () => spawnPostgres({ bin, dataFolder, port, logFile, config: this.config }),
      answers: () => this.answers(),
    });
  }

  async start(config?: Record<string, string | number>): Promise<void> {
    if (config) this.config = config;
    await this.process.start();
  }

  stop(mode: StopMode = 'fast'): Promise<void> {
    return this.process.end(SIGNALS[mode]);
  }

  async restart(mode?: StopMode): Promise<void> {
    await this.stop(mode);
    await this.start();
  }

  kill(): Promise<void> {
    return this.process.end('SIGKILL');
  }

  async close(): Promise<void> {
    await this.stop('immediate');
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }

  private async answers(): Promise<boolean> {
    const client = new Client({ connectionString: this.url, connectionTimeoutMillis: 2_000 });
    client.on('error', () => undefined);
    try {
      await client.connect();
      await client.query('SELECT 1');
      return true;
    } finally {
      await client.end().catch(() => undefined);
    }
  }
}
