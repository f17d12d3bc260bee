import 'reflect-metadata';
import { RabbitMQModule, RabbitSubscribe } from '@golevelup/nestjs-rabbitmq';
import {
  Injectable,
  Module,
  type DynamicModule,
  type INestApplicationContext,
  type Type,
} from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { getDataSourceToken, InjectRepository, TypeOrmModule } from '@nestjs/typeorm';
import {
  Column,
  DataSource,
  Entity,
  PrimaryGeneratedColumn,
  Repository,
  type DataSourceOptions,
} from 'typeorm';
import {
  getOutboxToken,
  getTransactionsToken,
  Idempotent,
  InboxOutboxModule,
  OutboxService,
  Transactions,
  type TransactionSource,
} from '../../../../lib';
import type { Collector } from '../../../support/message-collector';
import { openTestBroker, type TestBroker } from '../../../support/test-broker';
import { createTestDatabase, type TestDatabase } from '../../../support/test-database';

@Entity('notes')
export class Note {
  @PrimaryGeneratedColumn() id!: number;
  @Column() text!: string;
}

export type Work<T> = () => Promise<T>;
export type Run = <T>(work: Work<T>, dataSource?: string) => Promise<T>;

/** One way to open transactions. What it does not have is left out. */
export interface LibraryUnderTest {
  readonly name: string;
  readonly imports: readonly (DynamicModule | Type)[];
  readonly transactionSources?: readonly TransactionSource[];
  /** How a data source is made. */
  createDataSource?(options: DataSourceOptions, name: string): DataSource;
  /** Called when the application has started. */
  started?(app: INestApplicationContext): void;
  close?(): void;
  readonly required: Run;
  readonly requiresNew: Run;
  readonly mandatory?: Run;
  readonly never?: Run;
  readonly notSupported?: Run;
}

/** Writes with what Nest injects. */
@Injectable()
class Notes {
  constructor(
    @InjectRepository(Note) readonly main: Repository<Note>,
    @InjectRepository(Note, 'billing') readonly billing: Repository<Note>,
  ) {}
}

/** What a test lets the handler do. */
export const handler = { run: (_message: string): Promise<void> => Promise.resolve() };

export class LibraryApp {
  private constructor(
    readonly app: INestApplicationContext,
    readonly broker: TestBroker,
    readonly databases: { main: TestDatabase; billing: TestDatabase },
    readonly input: string,
    readonly output: string,
    readonly collector: Collector,
  ) {}

  static async start(library: LibraryUnderTest): Promise<LibraryApp> {
    const [main, billing, broker] = await Promise.all([
      createTestDatabase({ prefix: 'library' }),
      createTestDatabase({ prefix: 'library' }),
      openTestBroker(),
    ]);
    const input = await broker.assertQueue('in');
    const output = await broker.assertQueue('out');

    @Injectable()
    class Consumer {
      @RabbitSubscribe({ queue: input, queueOptions: { durable: true } })
      @Idempotent({ consumer: 'consumer', onFailure: 'requeue' })
      onMessage(message: string): Promise<void> {
        return handler.run(message);
      }
    }

    const typeOrm = (name: string, url: string) =>
      TypeOrmModule.forRootAsync({
        name,
        useFactory: () => ({
          type: 'postgres',
          url,
          autoLoadEntities: true,
          synchronize: true,
          poolSize: 8,
          applicationName: 'library-app',
        }),
        dataSourceFactory: (options) =>
          Promise.resolve(library.createDataSource?.(options!, name) ?? new DataSource(options!)),
      });
    // A wake-up that does not come would be noticed: nobody polls in the time of a test.
    const outbox = { pollInterval: '10m' } as const;

    @Module({
      imports: [
        typeOrm('default', main.url),
        typeOrm('billing', billing.url),
        TypeOrmModule.forFeature([Note]),
        TypeOrmModule.forFeature([Note], 'billing'),
        RabbitMQModule.forRoot({ uri: broker.url }),
        ...library.imports,
        InboxOutboxModule.forRoot({ outbox, transactionSources: library.transactionSources ?? [] }),
        InboxOutboxModule.forRoot({ outbox, dataSource: 'billing' }),
      ],
      providers: [Notes, Consumer],
    })
    class AppModule {}

    const app = await NestFactory.createApplicationContext(AppModule, { logger: false, abortOnError: false });
    library.started?.(app);
    return new LibraryApp(app, broker, { main, billing }, input, output, await broker.collect(output));
  }

  dataSource(name = 'default'): DataSource {
    return this.app.get<DataSource>(getDataSourceToken(name));
  }

  get transactions(): Transactions {
    return this.app.get(Transactions);
  }

  transactionsOf(name: string): Transactions {
    return this.app.get<Transactions>(getTransactionsToken(name));
  }

  /** Writes a row with the injected repository. @returns the connection that was used */
  async write(text: string, name: 'default' | 'billing' = 'default'): Promise<number> {
    const notes = this.app.get(Notes);
    const repository = name === 'billing' ? notes.billing : notes.main;
    await repository.save({ text });
    const [row] = await repository.query<{ pid: number }[]>('SELECT pg_backend_pid() AS pid');
    return row!.pid;
  }

  publish(payload: string, name = 'default'): Promise<string> {
    return this.app.get<OutboxService>(getOutboxToken(name)).publish('', this.output, payload);
  }

  /** Committed rows. */
  async texts(name: 'main' | 'billing' = 'main'): Promise<string[]> {
    const rows = await this.databases[name].query<{ text: string }>('SELECT text FROM notes ORDER BY text');
    return rows.map(({ text }) => text);
  }

  received(): string[] {
    return this.collector.json<string>().sort();
  }

  async reset(): Promise<void> {
    this.collector.messages.length = 0;
    for (const database of Object.values(this.databases)) {
      await database.query('TRUNCATE notes; TRUNCATE inbox_message');
    }
  }

  async close(): Promise<void> {
    await this.app.close();
    await this.broker.close();
    await Promise.all(Object.values(this.databases).map((database) => database.close()));
  }
}
