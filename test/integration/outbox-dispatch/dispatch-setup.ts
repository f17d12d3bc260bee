import { AmqpConnection } from '@golevelup/nestjs-rabbitmq';
import { SchedulerRegistry } from '@nestjs/schedule';
import { type OutboxOptions } from '../../../lib/inbox-outbox.options';
import { resolveOptions } from '../../../lib/resolved-options';
import { OutboxDispatcher, type OutboxDispatcherDependencies } from '../../../lib/outbox/outbox-dispatcher';
import { RabbitMqTransport } from '../../../lib/transport/rabbitmq/rabbitmq-transport';
import { openTestBroker, type TestBroker } from '../../support/test-broker';
import { createTestDatabase, type TestDatabase } from '../../support/test-database';
import { openOutboxTable, type OutboxTable, RecordingLogger } from './outbox-table';

export interface OutboxRow {
  seq: string;
  message_id: string;
  status: string;
  attempts: number;
  last_error: string | null;
  claim_token: string | null;
}

/** A database with the tables, a broker with names of its own, and dispatchers that live in this process. */
export class DispatchSetup {
  readonly logger = new RecordingLogger();
  readonly scheduler = new SchedulerRegistry();
  private readonly dispatchers: OutboxDispatcher[] = [];
  private readonly transports: RabbitMqTransport[] = [];

  private constructor(
    readonly database: TestDatabase,
    readonly broker: TestBroker,
    readonly table: OutboxTable,
    readonly amqp: AmqpConnection,
  ) {}

  /** golevelup keeps no state outside of its module class, so a connection can be made by hand; one per test file. */
  static async open({
    databaseUrl = (url: string) => url,
    amqpUrl = (url: string) => url,
    brokerUrl,
  }: {
    databaseUrl?: (url: string) => string;
    amqpUrl?: (url: string) => string;
    brokerUrl?: string;
  } = {}): Promise<DispatchSetup> {
    const database = await createTestDatabase({ prefix: 'dispatch' });
    const broker = await openTestBroker(brokerUrl);
    const table = await openOutboxTable(databaseUrl(database.url));
    await table.createTables();
    return new DispatchSetup(database, broker, table, await connectToBroker(amqpUrl(broker.url)));
  }

  transport(amqp = this.amqp): RabbitMqTransport {
    const transport = new RabbitMqTransport(amqp);
    this.transports.push(transport);
    return transport;
  }

  dispatcher(
    options: OutboxOptions = {},
    overrides: Partial<OutboxDispatcherDependencies> = {},
  ): OutboxDispatcher {
    const dispatcher = new OutboxDispatcher({
      dataSource: this.table.dataSource,
      dialect: this.table.dialect,
      transport: overrides.transport ?? this.transport(),
      options: resolveOptions({
        outbox: { pollInterval: 100, backoff: { initialDelay: 100, jitter: 0 }, ...options },
      }).outbox,
      scheduler: this.scheduler,
      logger: this.logger,
      ...overrides,
    });
    this.dispatchers.push(dispatcher);
    return dispatcher;
  }

  /** A queue that is bound to an exchange by its own name. */
  async queue(name: string, exchange: string, options: object = {}): Promise<string> {
    const queue = await this.broker.assertQueue(name, options);
    await this.broker.bind(queue, exchange, name);
    return queue;
  }

  rows(): Promise<OutboxRow[]> {
    return this.database.query<OutboxRow & Record<string, unknown>>(
      'SELECT seq::text, message_id, status, attempts, last_error, claim_token FROM outbox_message ORDER BY seq',
    );
  }

  row(messageId: string): Promise<OutboxRow | undefined> {
    return this.rows().then((rows) => rows.find((row) => row.message_id === messageId));
  }

  async reset(): Promise<void> {
    await Promise.all(this.dispatchers.splice(0).map((dispatcher) => dispatcher.stop({ timeout: 5_000 })));
    await Promise.all(this.transports.splice(0).map((transport) => transport.close()));
    await this.database.query('TRUNCATE outbox_message; TRUNCATE shedlock');
    this.logger.lines.length = 0;
  }

  async close(): Promise<void> {
    await this.reset().catch(() => undefined);
    await this.amqp.close().catch(() => undefined);
    await this.table.close().catch(() => undefined);
    await this.broker.close();
    await this.database.close();
  }
}

export async function connectToBroker(url: string): Promise<AmqpConnection> {
  const silent = { log: () => undefined, warn: () => undefined, error: () => undefined };
  const amqp = new AmqpConnection({
    name: 'default',
    uri: url,
    logger: silent,
    enableDirectReplyTo: false,
    connectionInitOptions: { wait: true, timeout: 10_000 },
    connectionManagerOptions: { reconnectTimeInSeconds: 0.2, heartbeatIntervalInSeconds: 5 },
  });
  await amqp.init();
  return amqp;
}
