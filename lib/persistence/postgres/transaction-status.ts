import type { EventEmitter } from 'node:events';
import type { QueryRunner } from 'typeorm';
import { TransactionAbortedError } from '../../transaction/transaction-aborted.error';
import type { TransactionGuard } from '../../transaction/transaction-guard';

/** The byte in ReadyForQuery: no transaction, an open one, one that has failed. */
type TransactionStatus = 'I' | 'T' | 'E';

/** What is used of pg's client. */
interface PgClient extends EventEmitter {
  readonly connection?: EventEmitter;
  readonly readyForQuery?: boolean;
  /** Since pg 8.21 or so. */
  getTransactionStatus?(): string | null;
}

const clients = new WeakMap<QueryRunner, PgClient>();

/** Last status of clients that do not keep it themselves. */
const observed = new WeakMap<PgClient, { status: TransactionStatus | undefined }>();

/**
 * PostgreSQL reports with each answer whether a transaction is open, so asking costs no round trip. It matters because
 * COMMIT of a failed transaction is answered with a silent ROLLBACK, and because a raw ROLLBACK leaves the connection in
 * autocommit.
 */
export class PostgresTransactionGuard implements TransactionGuard {
  assertAlive(runner: QueryRunner): Promise<void> | void {
    return withStatus(runner, (status) => {
      if (status === 'E') throw new TransactionAbortedError('failed');
      if (status === 'I') throw new TransactionAbortedError('ended');
    });
  }

  assertOpen(runner: QueryRunner): Promise<void> | void {
    return withStatus(runner, (status) => {
      if (status === 'I') throw new TransactionAbortedError('ended');
    });
  }

  isIdle(runner: QueryRunner): Promise<boolean> | boolean {
    return withStatus(runner, (status) => status === 'I' || status === undefined);
  }

  async discard(runner: QueryRunner, reason: Error): Promise<void> {
    await discardRunner(runner, reason);
  }

  watch(runner: QueryRunner, onLost: (cause: Error) => void): Promise<() => void> | (() => void) {
    const client = connectedClientOf(runner);
    return client
      ? watchClient(client, onLost)
      : clientOf(runner).then((found) => watchClient(found, onLost));
  }
}

function watchClient(client: PgClient, onLost: (cause: Error) => void): () => void {
  observe(client);
  client.once('error', onLost);
  return () => client.off('error', onLost);
}

/** Releases the runner in the way that makes pg's pool close the connection. Never throws. */
export async function discardRunner(runner: QueryRunner, reason: Error): Promise<void> {
  const { releasePostgresConnection } = runner as {
    releasePostgresConnection?: (error: Error) => Promise<void>;
  };
  try {
    if (releasePostgresConnection) await releasePostgresConnection.call(runner, reason);
    else await runner.release();
  } catch {
    // The connection is gone already.
  }
}

/**
 * Without waiting, which is what it is for: three promises for each transaction. TypeORM hides the property only from
 * TypeScript; where it has none by this name, `connect()` gives the client.
 */
function connectedClientOf(runner: QueryRunner): PgClient | undefined {
  const { databaseConnection } = runner as { databaseConnection?: PgClient };
  if (databaseConnection) clients.set(runner, databaseConnection);
  return databaseConnection;
}

/** pg's client of a runner that has not been released. A runner keeps its client for life. */
async function clientOf(runner: QueryRunner): Promise<PgClient> {
  const client = (await runner.connect()) as PgClient;
  clients.set(runner, client);
  return client;
}

/** Asks at once where the client is known and idle, which is nearly always: this runs before each statement. */
function withStatus<T>(
  runner: QueryRunner,
  judge: (status: TransactionStatus | undefined) => T,
): Promise<T> | T {
  // A released runner still gives its old client, which may be somebody else's by now.
  if (runner.isReleased) return judge(undefined);
  const client = clients.get(runner);
  if (client && client.readyForQuery !== false) return judge(statusOf(client));
  return clientOf(runner).then(async (found) => {
    // The error of a statement arrives before the status that follows it.
    if (found.readyForQuery === false) await untilReady(found);
    return judge(statusOf(found));
  });
}

function statusOf(client: PgClient): TransactionStatus | undefined {
  const status = client.getTransactionStatus ? client.getTransactionStatus() : observed.get(client)?.status;
  return status === 'I' || status === 'T' || status === 'E' ? status : undefined;
}

function untilReady(client: PgClient): Promise<void> {
  const { connection } = client;
  if (!connection) return Promise.resolve();
  return new Promise((resolve) => {
    const done = () => {
      for (const event of ['readyForQuery', 'error', 'end']) connection.off(event, done);
      resolve();
    };
    for (const event of ['readyForQuery', 'error', 'end']) connection.on(event, done);
  });
}

function observe(client: PgClient): void {
  if (client.getTransactionStatus || observed.has(client)) return;
  const last: { status: TransactionStatus | undefined } = { status: undefined };
  observed.set(client, last);
  client.connection?.on('readyForQuery', (message: { status?: TransactionStatus }) => {
    last.status = message.status;
  });
}
