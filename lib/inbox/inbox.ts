import { Logger } from '@nestjs/common';
import type { DataSource } from 'typeorm';
import type { DeadLetterAlarm } from '../dead-letters/dead-letter-alarm';
import type { ResolvedInboxOptions } from '../inbox-outbox.options';
import type { Dialect } from '../persistence/dialect';
import type { InboxOutboxTables } from '../persistence/tables';
import { ConcurrencyGate } from '../transaction/concurrency-gate';
import { CutOff } from '../transaction/cut-off';
import type { Transactions } from '../transaction/transactions';
import type { HandlerPolicy } from './delivery';
import { FailurePolicy } from './failure-policy';
import type { IdempotentMetadata } from './idempotent.metadata';
import { InboxDelivery } from './inbox-delivery';
import { InboxService } from './inbox.service';
import { InboxStore } from './inbox-store';
import { InboxTransaction } from './inbox-transaction';
import type { Pauses } from './pauses';
import type { RunningDeliveries } from './running-deliveries';
import type { SuspectsLane } from './suspects-lane';

/** What one registration of the module brings. */
export interface InboxSettings {
  /** Name of the data source; `default` for the default one. */
  readonly name: string;
  readonly dataSource: DataSource;
  /** Of this data source. */
  readonly transactions: Transactions;
  readonly tables: InboxOutboxTables;
  readonly dialect: Dialect;
  readonly options: ResolvedInboxOptions;
  /** Of all handlers that hold a connection of this data source. */
  readonly gate: ConcurrencyGate;
  /** Told of messages that have become dead. */
  readonly alarm: Pick<DeadLetterAlarm, 'raise'>;
}

/** The inbox of one data source. Made by {@link Inboxes}, which holds what all of them share. */
export class Inbox {
  readonly name: string;
  readonly store: InboxStore;
  readonly deliveries: InboxDelivery;
  readonly service: InboxService;

  constructor(
    private readonly settings: InboxSettings,
    shared: { readonly lane: SuspectsLane; readonly pauses: Pauses; readonly running: RunningDeliveries },
  ) {
    const { name, dataSource, transactions, tables, dialect, options, gate, alarm } = settings;
    const { maxConcurrentHandlers: limit, maxAttempts } = options;
    const cutOff = new CutOff(dataSource, dialect, new Logger('Inbox'));
    this.name = name;
    this.store = new InboxStore(dataSource, tables.inbox, dialect);
    const common = {
      ...shared,
      store: this.store,
      transaction: new InboxTransaction(this.store, transactions, dialect, cutOff),
      gate: limit === undefined ? gate : new ConcurrencyGate(limit, gate),
    };
    this.deliveries = new InboxDelivery({
      ...common,
      failures: new FailurePolicy(this.store, shared.pauses),
      maxAttempts,
      alarm,
    });
    this.service = new InboxService({ ...common, dataSource, timeout: options.timeout });
  }

  /** @param concreteClass the class of the instance, which inherits the method perhaps */
  policyOf({ propertyKey, options }: IdempotentMetadata, concreteClass: { name: string }): HandlerPolicy {
    const defaults = this.settings.options;
    return {
      consumer: options.consumer ?? `${concreteClass.name}.${propertyKey}`,
      messageId: options.messageId,
      onMissingId: options.onMissingId ?? defaults.onMissingId,
      onDuplicate: options.onDuplicate ?? defaults.onDuplicate,
      onFailure: options.onFailure ?? defaults.onFailure,
      timeout: options.timeout ?? defaults.timeout,
      isolationLevel: options.isolationLevel,
    };
  }
}
