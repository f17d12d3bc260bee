import 'reflect-metadata';
import {
  Module,
  type DynamicModule,
  type INestApplicationContext,
  type LoggerService,
  type Provider,
  type Type,
} from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { TypeOrmModule } from '@nestjs/typeorm';
import { DataSource } from 'typeorm';
import {
  InboxOutboxModule,
  OutboxDispatcher,
  OutboxService,
  type EnqueuedMessage,
  type EnqueueOptions,
  type InboxOutboxModuleOptions,
  type OutboxOptions,
} from '../../../lib';
import type { OutboxInsert } from '../../../lib/persistence/outbox-statements';
import { openOutboxTable, type OutboxTable } from '../outbox-dispatch/outbox-table';
import { createTestDatabase, type TestDatabase } from '../../support/test-database';

export interface LocalAppOptions {
  readonly providers?: Provider[];
  readonly controllers?: Type[];
  readonly imports?: (DynamicModule | Type)[];
  readonly outbox?: OutboxOptions;
  readonly options?: InboxOutboxModuleOptions;
  readonly poolSize?: number;
  readonly logger?: LoggerService;
  /** Default: `database.url`. */
  readonly url?: string;
}

export interface OutboxRow {
  seq: string;
  message_id: string;
  transport: string;
  routing_key: string;
  status: string;
  attempts: number;
  last_error: string | null;
  claim_token: string | null;
  claimed_until: Date | null;
}

/** An application as a user would write it, without RabbitMQ. Several may live in one process. */
export class LocalSetup {
  private readonly apps: INestApplicationContext[] = [];

  private constructor(
    readonly database: TestDatabase,
    private readonly table: OutboxTable,
  ) {}

  static async open(): Promise<LocalSetup> {
    const database = await createTestDatabase({ prefix: 'local' });
    await database.query('CREATE TABLE effect (name text)');
    const table = await openOutboxTable(database.url, 2);
    await table.createTables();
    return new LocalSetup(database, table);
  }

  async start(options: LocalAppOptions): Promise<LocalApp> {
    const { providers = [], controllers = [], imports = [], outbox = {}, poolSize = 10 } = options;

    @Module({
      imports: [
        TypeOrmModule.forRoot({
          type: 'postgres',
          url: options.url ?? this.database.url,
          autoLoadEntities: true,
          poolSize,
          poolErrorHandler: () => undefined,
          retryAttempts: 0,
        } as object),
        InboxOutboxModule.forRoot({
          ...options.options,
          outbox: { pollInterval: 100, backoff: { initialDelay: 50, jitter: 0 }, ...outbox },
        }),
        ...imports,
      ],
      providers,
      controllers,
    })
    class App {}

    const app = await NestFactory.createApplicationContext(App, {
      logger: options.logger ?? false,
      abortOnError: false,
    });
    this.apps.push(app);
    return new StartedApp(app);
  }

  /** Commits a message without any application. @returns its id */
  async insert(handler: string, payload: unknown, options: Partial<OutboxInsert> = {}): Promise<string> {
    const [id] = await this.table.publish({
      transport: 'local',
      exchange: '',
      routingKey: handler,
      body: JSON.stringify(payload),
      ...options,
    });
    return id!;
  }

  rows(): Promise<OutboxRow[]> {
    return this.database.query<OutboxRow & Record<string, unknown>>(
      'SELECT *, seq::text FROM outbox_message ORDER BY outbox_message.seq',
    );
  }

  async effects(): Promise<string[]> {
    return (await this.database.query<{ name: string }>('SELECT name FROM effect ORDER BY name')).map(
      ({ name }) => name,
    );
  }

  async reset(): Promise<void> {
    await Promise.all(this.apps.splice(0).map((app) => app.close()));
    await this.database.query('TRUNCATE effect');
    await this.database.query('TRUNCATE outbox_message; TRUNCATE shedlock');
  }

  async close(): Promise<void> {
    await this.reset();
    await this.table.close();
    await this.database.close();
  }
}

export interface LocalApp {
  readonly context: INestApplicationContext;
  readonly outbox: OutboxService;
  readonly dispatcher: OutboxDispatcher;
  /** In a transaction of its own. */
  enqueue(handler: string, payload?: unknown, options?: EnqueueOptions): Promise<string>;
  enqueueMany(messages: readonly EnqueuedMessage[]): Promise<string[]>;
  close(): Promise<void>;
}

class StartedApp implements LocalApp {
  readonly outbox: OutboxService;
  readonly dispatcher: OutboxDispatcher;
  private readonly dataSource: DataSource;

  constructor(readonly context: INestApplicationContext) {
    this.outbox = context.get(OutboxService);
    this.dispatcher = context.get(OutboxDispatcher);
    this.dataSource = context.get(DataSource);
  }

  enqueue(handler: string, payload: unknown = {}, options: EnqueueOptions = {}): Promise<string> {
    return this.dataSource.transaction(() => this.outbox.enqueue(handler, payload, options));
  }

  enqueueMany(messages: readonly EnqueuedMessage[]): Promise<string[]> {
    return this.dataSource.transaction(() => this.outbox.enqueueMany(messages));
  }

  close(): Promise<void> {
    return this.context.close();
  }
}
