import { isDeepStrictEqual } from 'node:util';
import type { AmqpConnection } from '@golevelup/nestjs-rabbitmq';
import { Logger } from '@nestjs/common';
import type { DataSource } from 'typeorm';
import { DeadLetterAlarm } from './dead-letters/dead-letter-alarm';
import { DeadLetterService } from './dead-letters/dead-letter.service';
import { InboxCleaner } from './inbox/inbox-cleaner';
import type { InboxProcessor } from './inbox/inbox-processor';
import type { InboxService } from './inbox/inbox.service';
import type { Inboxes } from './inbox/inboxes';
import type { ResolvedOptions } from './resolved-options';
import { DEFAULT_DATA_SOURCE } from './injection-tokens';
import { LockService } from './locking/lock.service';
import { LockStore } from './locking/lock-store';
import { LocalDispatch } from './outbox/local-dispatch';
import { OutboxCleaner } from './outbox/outbox-cleaner';
import { OutboxSignals } from './outbox/outbox-signals';
import { OutboxDispatcher } from './outbox/outbox-dispatcher';
import { OutboxService } from './outbox/outbox.service';
import { OutboxStore } from './outbox/outbox-store';
import type { Dialect } from './persistence/dialect';
import { createDialect } from './persistence/dialects';
import { PostgresTransactionGuard } from './persistence/postgres/transaction-status';
import type { InboxOutboxTables } from './persistence/tables';
import { verifyEntities, verifySchema } from './persistence/verify-schema';
import type { IntervalRegistry } from './scheduling/named-interval';
import { throttled } from './timing/throttled';
import { installBridge } from './transaction/bridge';
import { ConcurrencyGate } from './transaction/concurrency-gate';
import { CutOff } from './transaction/cut-off';
import { Transactions } from './transaction/transactions';
import { DetachedRuns } from './transport/local/detached-runs';
import { LocalHandlers } from './transport/local/local-handlers';
import { TransactionalRuns } from './transport/local/transactional-runs';
import type { ManagedConnection } from './transport/rabbitmq/amqp-types';
import { RabbitMqTransport } from './transport/rabbitmq/rabbitmq-transport';

export interface RegistrationSettings {
  readonly dataSourceName: string;
  readonly dataSource: DataSource;
  readonly tables: InboxOutboxTables;
  readonly options: ResolvedOptions;
  readonly scheduler: IntervalRegistry;
  readonly inboxes: Inboxes;
  /** Looked up when it is needed: other modules' providers may not exist yet when this is built. */
  readonly connection: () => AmqpConnection | undefined;
}

/** Everything that works on one data source. */
export class Registration {
  readonly transactions: Transactions;
  readonly outbox: OutboxService;
  readonly inbox: InboxService;
  readonly dispatcher: OutboxDispatcher;
  readonly locks: LockService;
  readonly deadLetters: DeadLetterService;
  private readonly alarm: DeadLetterAlarm;
  private readonly processor: InboxProcessor;
  /** To be filled before `verify()`. */
  readonly localHandlers = new LocalHandlers();
  private readonly transport: RabbitMqTransport;
  private readonly signals: OutboxSignals | undefined;
  private readonly cleaners: readonly { start(): void; stop(): Promise<void> }[];
  private readonly dialect: Dialect;
  private readonly undoBridge: () => void;

  /**
   * Built together with the module's providers, since others inject its services. Nothing runs before `start()`.
   *
   * @throws {InboxOutboxSchemaError} when the data source does not know the module's entities
   * @throws {UnsupportedDatabaseError}
   */
  constructor(private readonly settings: RegistrationSettings) {
    const { dataSourceName, dataSource, tables, options, scheduler, inboxes, connection } = settings;
    verifyEntities(dataSourceName, dataSource, tables);
    const dialect = createDialect(dataSource, tables);
    const name = dataSourceName === DEFAULT_DATA_SOURCE ? undefined : dataSourceName;
    const common = { dataSource, dialect, scheduler, name };
    const gate = ConcurrencyGate.ofPool(dataSource, options.inbox.maxConcurrentHandlers);

    this.dialect = dialect;
    this.transactions = new Transactions(dataSource, options.transactionSources);
    this.transport = new RabbitMqTransport({
      get managedConnection() {
        return connection()?.managedConnection as ManagedConnection | undefined;
      },
      get configuration() {
        return connection()?.configuration ?? {};
      },
    });
    this.alarm = new DeadLetterAlarm({
      dataSource: dataSourceName,
      onDead: options.onDead,
      logger: new Logger('DeadLetters'),
    });
    this.dispatcher = new OutboxDispatcher({
      ...common,
      alarm: this.alarm,
      transport: this.transport,
      hasBroker: () => connection() !== undefined,
      local: this.createLocalDispatch(dialect, gate),
      options: options.outbox,
      logger: new Logger('OutboxDispatcher'),
      hears: () => this.signals?.arrive === true,
    });
    this.signals = this.createSignals();
    const notifyOutbox = () => {
      this.dispatcher.notify();
      this.signals?.send();
    };
    this.outbox = new OutboxService({
      dataSource,
      transactions: this.transactions,
      statements: {
        ...dialect.outbox,
        insert: (runner, messages) =>
          dialect.outbox.insert(runner, messages, options.outbox.deduplicationRetention),
      },
      requireTransaction: options.outbox.requireTransaction,
      get serializer() {
        return options.outbox.serializer ?? connection()?.configuration.serializer;
      },
      propagateContext: options.outbox.propagateContext,
      notify: notifyOutbox,
    });
    this.deadLetters = new DeadLetterService({
      dataSource,
      transactions: this.transactions,
      statements: dialect.deadLetters,
      notify: { outbox: notifyOutbox, inbox: () => this.processor.notify() },
    });
    const inbox = inboxes.open({
      gate,
      name: dataSourceName,
      dataSource,
      transactions: this.transactions,
      tables,
      dialect,
      options: options.inbox,
      alarm: this.alarm,
      scheduler,
      jobName: name,
      // What the handler of the first has published may wait for its poll, with nobody to wake the dispatcher.
      onDuplicate: throttled(notifyOutbox),
    });
    this.inbox = inbox.service;
    this.processor = inbox.processor;
    const locks = new LockStore(common);
    this.locks = new LockService({ store: locks, logger: new Logger('LockService') });
    const cleaning = { scheduler, locks, name };
    this.cleaners = [
      new OutboxCleaner({
        ...cleaning,
        ...options.outbox.cleanup,
        store: new OutboxStore(common),
        retention: options.outbox.retention,
        deduplicationRetention: options.outbox.deduplicationRetention,
        logger: new Logger('OutboxCleaner'),
      }),
      new InboxCleaner({
        ...cleaning,
        ...options.inbox.cleanup,
        store: inbox.store,
        retention: options.inbox.retention,
        logger: new Logger('InboxCleaner'),
      }),
    ];
    this.undoBridge = installBridge(dataSource, new PostgresTransactionGuard(), options.transactionSources);
  }

  private createLocalDispatch(dialect: Dialect, gate: ConcurrencyGate): LocalDispatch {
    const { dataSource, options } = this.settings;
    const { localHandlers: handlers, transactions } = this;
    const logger = new Logger('OutboxHandlers');
    const cutOff = new CutOff(dataSource, dialect, logger);
    const keepSent = options.outbox.retention !== false;
    return new LocalDispatch({
      store: new OutboxStore({ dataSource, dialect, haltOnDead: options.outbox.onDeadLetter === 'halt' }),
      handlers,
      transactionalRuns: new TransactionalRuns({ transactions, dialect, cutOff, keepSent }),
      detachedRuns: new DetachedRuns(logger),
      gate,
      options: options.outbox,
      alarm: this.alarm,
      logger,
    });
  }

  /** @throws {InboxOutboxSchemaError} naming missing tables and columns */
  async verify(): Promise<void> {
    const { dataSource, tables, options, dataSourceName, connection } = this.settings;
    await verifySchema(dataSource, tables, this.dialect);
    if (options.outbox.dispatch === 'off' || connection() !== undefined) return;
    if (this.localHandlers.size === 0 || options.connection !== undefined) {
      throw new Error(
        `InboxOutboxModule (data source "${dataSourceName}") finds no golevelup connection` +
          `${options.connection === undefined ? '' : ` "${options.connection}"`} to publish on. Import ` +
          "RabbitMQModule.forRoot(), add an @OutboxHandler() where it needs no broker, or set outbox.dispatch to 'off' where another process sends.",
      );
    }
  }

  start(): void {
    this.signals?.start();
    this.dispatcher.start();
    this.processor.start();
    for (const cleaner of this.cleaners) cleaner.start();
  }

  /** @param timeout milliseconds to wait for the confirms that are under way, and for tasks under locks */
  async stop(timeout: number): Promise<void> {
    await Promise.all([
      this.dispatcher.stop({ timeout }),
      this.processor.stop(timeout),
      this.locks.stop(timeout),
      ...this.cleaners.map((cleaner) => cleaner.stop()),
    ]);
    await this.alarm.drain(timeout);
    await this.transport.close();
  }

  /** After the handlers, whose last commits other processes should hear of. Never rejects. */
  async endSignals(): Promise<void> {
    await this.signals?.close();
  }

  /** The data source is as it was before. */
  dispose(): void {
    this.undoBridge();
    void this.endSignals();
  }

  private createSignals(): OutboxSignals | undefined {
    const { dispatch, wakeUp } = this.settings.options.outbox;
    const { openSignals } = this.dialect;
    if (wakeUp === 'poll' || !openSignals) return undefined;
    return new OutboxSignals({
      open: openSignals,
      onSignal: dispatch === 'off' ? undefined : () => this.dispatcher.notify(),
      logger: new Logger('OutboxSignals'),
    });
  }

  /** Whether a second registration for the same data source asks for the same. */
  isSameAs({ tables, options }: Pick<RegistrationSettings, 'tables' | 'options'>): boolean {
    const mine = this.settings;
    return mine.tables === tables && isDeepStrictEqual(mine.options, options);
  }
}
