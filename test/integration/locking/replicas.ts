import { startAppProcess, type AppProcess } from '../../support/app-process';
import type { Collector } from '../../support/message-collector';
import { openTestBroker, type TestBroker } from '../../support/test-broker';
import { createTestDatabase, type TestDatabase } from '../../support/test-database';
import { waitFor } from '../../support/wait-for';
import { openOutboxTable, type OutboxTable } from '../outbox-dispatch/outbox-table';
import { lockRow, type LockRow } from './lock-row';

/** For what is not the module's: scheduling, the servers, two cores. Milliseconds. */
export const SLACK = 2_500;

/** Several processes that dispatch from one outbox, and a queue where all that they send arrives. */
export class Replicas {
  private readonly processes: AppProcess[] = [];

  private constructor(
    readonly database: TestDatabase,
    readonly broker: TestBroker,
    readonly table: OutboxTable,
    readonly exchange: string,
    readonly queue: string,
    readonly collector: Collector,
  ) {}

  static async open(): Promise<Replicas> {
    const [database, broker] = await Promise.all([
      createTestDatabase({ prefix: 'replicas' }),
      openTestBroker(),
    ]);
    const table = await openOutboxTable(database.url, 2);
    await table.createTables();
    const exchange = await broker.assertExchange('ex');
    const queue = await broker.assertQueue('q');
    await broker.bind(queue, exchange, 'q');
    return new Replicas(database, broker, table, exchange, queue, await broker.collect(queue));
  }

  /** @param fixture below test/integration; it says `ready` */
  async launch(fixture: string, options: object, env: Record<string, string> = {}): Promise<AppProcess> {
    const app = startAppProcess(`test/integration/${fixture}.ts`, {
      env: {
        DATABASE: this.database.url,
        BROKER: this.broker.url,
        OPTIONS: JSON.stringify(options),
        ...env,
      },
    });
    this.processes.push(app);
    await app.waitFor('ready', undefined, { timeout: 60_000 });
    return app;
  }

  publish(count: number): Promise<string[]> {
    const { exchange } = this;
    return this.table.publish(
      ...Array.from({ length: count }, (_, n) => ({ exchange, routingKey: 'q', body: String(n) })),
    );
  }

  /** The lock of the dispatchers. */
  lock(): Promise<LockRow | undefined> {
    return lockRow(this.database, 'outbox-dispatcher');
  }

  async leads(app: AppProcess): Promise<LockRow | undefined> {
    const row = await this.lock();
    return row?.held && row.owner.includes(` ${app.pid} `) ? row : undefined;
  }

  /** Until this process leads, or one of these does. */
  leading(...apps: AppProcess[]): Promise<LockRow> {
    return waitFor('another to lead', async () =>
      (await Promise.all(apps.map((app) => this.leads(app)))).find((row) => row !== undefined),
    );
  }

  async arrived(ids: readonly string[]): Promise<void> {
    await waitFor('every id to arrive', () => ids.every((id) => this.collector.messageIds.includes(id)));
  }

  async empty(): Promise<void> {
    await waitFor('the outbox to be empty', async () => {
      return (await this.database.query('SELECT 1 FROM outbox_message')).length === 0;
    });
  }

  async stopProcesses(): Promise<void> {
    await Promise.all(this.processes.splice(0).map((each) => each.close()));
  }

  async close(): Promise<void> {
    await this.stopProcesses();
    await this.table.close();
    await this.broker.close();
    await this.database.close();
  }
}
