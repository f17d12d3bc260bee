import { createHash, randomUUID } from 'node:crypto';
import type { EventEmitter } from 'node:events';
import type { DataSource } from 'typeorm';
import { within } from '../../timing/within';
import type { OpenSignals, SignalConnection, SignalEvents } from '../signals';
import type { SqlTemplate } from '../table-names';

/** What is used of pg's client. */
interface PgClient extends EventEmitter {
  readonly processID?: number | null;
  connect(): Promise<unknown>;
  query(sql: string, parameters?: unknown[]): Promise<{ rows: Record<string, string>[] }>;
  end(): Promise<void>;
  unref?(): void;
}

interface Notification {
  readonly channel: string;
  readonly processId: number;
}

/** What TypeORM keeps: the pg module that it has loaded, and the pool with the options that it has made from its own. */
interface PostgresDriver {
  readonly postgres: { readonly Client: new (options: object) => PgClient };
  readonly master: { readonly options: { connectionTimeoutMillis?: number } };
}

/** How the connection shows in `pg_stat_activity`. */
const APPLICATION_NAME = 'inbox-outbox signals';
/** Milliseconds to wait for an answer of the server, and for a signal to come back. */
const PATIENCE = 10_000;
/** Milliseconds to wait for a goodbye. */
const GOODBYE = 1_000;
/** Characters; PostgreSQL cuts longer ones without a word. */
const MAX_CHANNEL = 63;

/**
 * Signals by LISTEN and NOTIFY. The connection is made as those of the pool are, by the same pg and with the same options,
 * but outside of it: a listener needs its session for good, and a signal must not wait for the pool, nor take one of its
 * last connections.
 */
export function postgresSignals(dataSource: DataSource, sql: SqlTemplate): OpenSignals {
  return async (events) => {
    const { postgres, master } = dataSource.driver as unknown as PostgresDriver;
    const client = new postgres.Client(ownOptions(master.options));
    const connection = new PostgresSignalConnection(client, events);
    try {
      await connection.open(sql('{}'));
      return connection;
    } catch (error) {
      await connection.close();
      throw error;
    }
  };
}

/** The descriptors, since the pool hides the password from enumeration. */
function ownOptions(options: PostgresDriver['master']['options']): object {
  return Object.assign(Object.defineProperties({}, Object.getOwnPropertyDescriptors(options)), {
    application_name: APPLICATION_NAME,
    // A listener says nothing by itself, and a firewall forgets who says nothing.
    keepAlive: true,
    connectionTimeoutMillis: options.connectionTimeoutMillis || PATIENCE,
  });
}

class PostgresSignalConnection implements SignalConnection {
  private readonly own = channelName(randomUUID());
  private channel = '';
  private echo: (() => void) | undefined;
  private over = false;

  constructor(
    private readonly client: PgClient,
    private readonly events: SignalEvents,
  ) {
    // Without a listener the error would end the process.
    client.on('error', (error: Error) => this.lose(error));
    client.on('end', () => this.lose(new Error('The server has closed the connection')));
    client.on('notification', (notification: Notification) => this.heard(notification));
  }

  async open(table: string): Promise<void> {
    await this.client.connect();
    // It must not keep a process alive that has nothing else to do.
    this.client.unref?.();
    const [row] = await this.ask(
      `SELECT n.nspname || '.' || c.relname AS name
       FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE c.oid = $1::regclass`,
      [table],
    );
    this.channel = channelName(String(row?.name));
  }

  async send(): Promise<void> {
    await this.notify(this.channel);
  }

  async listen(): Promise<boolean> {
    await this.ask(`LISTEN "${this.channel}"`);
    await this.ask(`LISTEN "${this.own}"`);
    const echo = new Promise<void>((resolve) => (this.echo = resolve));
    await this.notify(this.own);
    return within(PATIENCE, echo);
  }

  async close(): Promise<void> {
    this.over = true;
    await within(GOODBYE, this.client.end()).catch(() => undefined);
  }

  /** A hint is worth no flush of the write-ahead log, which the commits of the application would wait for. */
  private async notify(channel: string): Promise<void> {
    await this.ask(`SELECT set_config('synchronous_commit', 'off', true), pg_notify('${channel}', '')`);
  }

  private async ask(sql: string, parameters?: unknown[]): Promise<Record<string, string>[]> {
    const answer = this.client.query(sql, parameters);
    answer.catch(() => undefined);
    if (await within(PATIENCE, answer)) return (await answer).rows;
    const error = new Error(`The server has not answered within ${PATIENCE} ms`);
    this.lose(error);
    throw error;
  }

  private heard({ channel, processId }: Notification): void {
    if (channel === this.own) this.echo?.();
    else if (channel === this.channel && processId !== this.client.processID) this.events.onSignal();
  }

  private lose(cause: Error): void {
    if (this.over) return;
    void this.close();
    this.events.onLost(cause);
  }
}

/** Safe in quotes of either kind. */
function channelName(name: string): string {
  const channel = `inbox_outbox:${name}`;
  if (/^[\w.-]+$/.test(name) && channel.length <= MAX_CHANNEL) return channel;
  return `inbox_outbox:${createHash('sha256').update(name).digest('hex').slice(0, 32)}`;
}
