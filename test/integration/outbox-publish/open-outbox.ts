import type { EntityManager } from 'typeorm';
import { OutboxService } from '../../../lib/outbox/outbox.service';
import type { OutboxMessage, PublishOptions } from '../../../lib/outbox/publish-options';
import { PostgresTransactionGuard } from '../../../lib/persistence/postgres/transaction-status';
import { installBridge } from '../../../lib/transaction/bridge';
import { Transactions } from '../../../lib/transaction/transactions';
import { openPostgres, type Postgres } from '../persistence/postgres';

export type Stored = Record<string, unknown> & { body: string; message_id: string };

/** An outbox service on a database of its own, where transactions are joined. */
export interface OpenOutbox {
  readonly pg: Postgres;
  readonly outbox: OutboxService;
  /** How often the dispatcher was woken since the last `reset()`. */
  notified: number;
  service(options: { requireTransaction: boolean }): OutboxService;
  inTransaction<T>(work: (manager: EntityManager) => Promise<T>): Promise<T>;
  /** Publishes one message in a transaction of its own. */
  publish(payload: unknown, options?: PublishOptions): Promise<string>;
  stored(): Promise<Stored[]>;
  reset(): Promise<void>;
  close(): Promise<void>;
}

export async function openOutbox(): Promise<OpenOutbox> {
  const pg = await openPostgres();
  await pg.database.query('CREATE TABLE business (n int)');
  const undoBridge = installBridge(pg.dataSource, new PostgresTransactionGuard());
  const service: OpenOutbox['service'] = ({ requireTransaction }) =>
    new OutboxService({
      dataSource: pg.dataSource,
      statements: pg.dialect.outbox,
      transactions: new Transactions(pg.dataSource),
      notify: () => open.notified++,
      requireTransaction,
    });
  const outbox = service({ requireTransaction: true });
  const open: OpenOutbox = {
    pg,
    outbox,
    notified: 0,
    service,
    inTransaction: (work) => pg.dataSource.transaction(work),
    publish: (payload, options) => open.inTransaction(() => outbox.publish('e', 'r', payload, options)),
    stored: () => pg.database.query<Stored>('SELECT * FROM outbox_message ORDER BY seq'),
    async reset() {
      open.notified = 0;
      await pg.database.query('TRUNCATE outbox_message; TRUNCATE business');
    },
    async close() {
      undoBridge();
      await pg.close();
    },
  };
  return open;
}

export const message = (payload: unknown, options: OutboxMessage['options'] = {}): OutboxMessage => ({
  exchange: 'e',
  routingKey: 'r',
  payload,
  options,
});
