import { Logger } from '@nestjs/common';
import type { DataSource } from 'typeorm';
import type { DeadLetterAlarm } from '../dead-letters/dead-letter-alarm';
import type { OnFailure, Processing } from '../inbox-outbox.options';
import type { ResolvedInboxOptions } from '../resolved-options';
import type { Dialect } from '../persistence/dialect';
import type { InboxOutboxTables } from '../persistence/tables';
import { ConcurrencyGate } from '../transaction/concurrency-gate';
import { CutOff } from '../transaction/cut-off';
import type { Transactions } from '../transaction/transactions';
import { checkRetention } from '../message/retention';
import { createRetryPolicy } from '../message/retry-policy';
import type { IntervalRegistry } from '../scheduling/named-interval';
import { Backlog } from './backlog';
import { BatchDelivery } from './batch-delivery';
import { BatchStore } from './batch-store';
import { Burial } from './burial';
import type { HandlerKind, HandlerPolicy } from './delivery';
import { FailurePolicy } from './failure-policy';
import type { IdempotentMetadata } from './idempotent.metadata';
import { InboxDelivery } from './inbox-delivery';
import { InboxService } from './inbox.service';
import { InboxStore } from './inbox-store';
import { InboxTransaction } from './inbox-transaction';
import { FingerprintStore } from './fingerprint-store';
import { Fingerprints } from './fingerprints';
import { Handling } from './handling';
import { InboxProcessor } from './inbox-processor';
import type { KeptRun } from './kept-run';
import { KeptPresence } from './kept-presence';
import { KeptStore } from './kept-store';
import { MessageKeeper } from './message-keeper';
import type { Pauses } from './pauses';
import { ReplyStore } from './reply-store';
import { RpcDelivery } from './rpc-delivery';
import type { RunningDeliveries } from './running-deliveries';
import type { SuspectsLane } from './suspects-lane';
import type { UndecodableBodies } from './undecodable-bodies';

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
  readonly scheduler: IntervalRegistry;
  /** Called for each message that was handled before. */
  readonly onDuplicate: () => void;
  /** For the names of jobs; `undefined` for the default data source. */
  readonly jobName: string | undefined;
}

/** What all inboxes of an application share. */
export interface SharedParts {
  readonly lane: SuspectsLane;
  readonly pauses: Pauses;
  readonly running: RunningDeliveries;
  readonly undecodable: UndecodableBodies;
}

/** The inbox of one data source. Made by {@link Inboxes}, which holds what all of them share. */
export class Inbox {
  readonly name: string;
  readonly store: InboxStore;
  readonly deliveries: InboxDelivery;
  /** For RPC handlers, in the place of `deliveries`. */
  readonly rpc: RpcDelivery;
  readonly batches: BatchDelivery;
  readonly burial: Burial;
  readonly fingerprints: Fingerprints;
  readonly service: InboxService;
  /** Handles what the table owns. */
  readonly processor: InboxProcessor;
  /** Runs of messages that the table owns, by the message that they are for. */
  readonly runs = new WeakMap<object, KeptRun>();

  constructor(
    private readonly settings: InboxSettings,
    shared: SharedParts,
  ) {
    const { name, dataSource, transactions, tables, dialect, options, alarm } = settings;
    const { maxConcurrentHandlers: limit } = options;
    const { pauses } = shared;
    const cutOff = new CutOff(dataSource, dialect, new Logger('Inbox'));
    this.name = name;
    const presence = new KeptPresence(options.pollInterval);
    this.store = new InboxStore(dataSource, tables.inbox, dialect, presence);
    const kept = new KeptStore(dataSource, dialect, this.store, () => this.processor.consumers, presence);
    const backlog = new Backlog(kept, options.maxBacklog, pauses);
    const keeper = new MessageKeeper(kept, backlog, () => this.processor);
    const gate = limit === undefined ? settings.gate : new ConcurrencyGate(limit, settings.gate);
    const transaction = new InboxTransaction(this.store, transactions, dialect, cutOff);
    const handling = new Handling({ transaction, gate, pauses });
    const common = {
      ...shared,
      onDuplicate: settings.onDuplicate,
      store: this.store,
      transaction,
      gate,
      alarm,
    };
    this.burial = new Burial(this.store, pauses, alarm);
    this.deliveries = new InboxDelivery({
      ...common,
      handling,
      burial: this.burial,
      keeper,
      failures: new FailurePolicy(this.store, keeper, pauses, alarm),
    });
    this.processor = new InboxProcessor({
      name: settings.jobName,
      scheduler: settings.scheduler,
      store: kept,
      running: shared.running,
      gate,
      run: {
        ...shared,
        store: kept,
        handling,
        transaction,
        alarm,
        runs: this.runs,
        notify: (delay) => this.processor.notify(delay),
      },
      pollInterval: options.pollInterval,
      lease: options.lease,
    });
    this.fingerprints = new Fingerprints({
      store: new FingerprintStore(dataSource, transactions, tables.inbox, dialect),
      transactions,
      burial: this.burial,
      onRepeatedContent: options.onRepeatedContent,
    });
    this.rpc = new RpcDelivery(
      this.deliveries,
      new ReplyStore(dataSource, transactions, tables.inbox, dialect),
    );
    this.batches = new BatchDelivery({
      store: new BatchStore(transactions, dialect),
      deliveries: this.deliveries,
      handling,
      burial: this.burial,
      fingerprints: this.fingerprints,
      onDuplicate: settings.onDuplicate,
      undecodable: shared.undecodable,
      pauses,
    });
    this.service = new InboxService({
      ...common,
      dataSource,
      timeout: options.timeout,
      fingerprints: this.fingerprints,
    });
  }

  /**
   * @param concreteClass the class of the instance, which inherits the method perhaps
   * @throws {InvalidOptionError} when messages would be forgotten before their last run
   */
  policyOf(
    { propertyKey, options }: IdempotentMetadata,
    concreteClass: { name: string },
    kind: HandlerKind,
  ): HandlerPolicy {
    const defaults = this.settings.options;
    const processing = options.processing ?? (kind === 'single' ? defaults.processing : 'inline');
    const isPassing = processing === 'inline' && kind !== 'batch';
    const maxAttempts = options.retry?.maxAttempts ?? defaults.maxAttempts;
    const backoff = { ...defaults.backoff, ...options.retry?.backoff };
    const owner = `${concreteClass.name}.${propertyKey}`;
    if (options.retry) checkRetention(defaults, { maxAttempts, backoff }, `the option retry of ${owner}`);
    return {
      consumer: options.consumer ?? owner,
      messageId: options.messageId,
      onMissingId: options.onMissingId ?? defaults.onMissingId,
      onDuplicate: options.onDuplicate ?? (isPassing ? defaults.onDuplicate : 'skip'),
      processing,
      orderingKey: options.orderingKey,
      onFailure: onFailureOf(options.onFailure, defaults.onFailure, { kind, processing }),
      fingerprint: options.fingerprint ?? defaults.fingerprint,
      errorReply: options.errorReply,
      maxAttempts,
      retry: createRetryPolicy(maxAttempts, backoff),
      timeout: options.timeout ?? defaults.timeout,
      isolationLevel: options.isolationLevel,
    };
  }
}

function onFailureOf(
  own: OnFailure | undefined,
  general: OnFailure,
  { kind, processing }: { readonly kind: HandlerKind; readonly processing: Processing },
): OnFailure {
  if (own) return own;
  if (processing === 'deferred') return 'retry';
  // A request that is rejected times out, and one that is kept or comes again is answered too late.
  return kind === 'rpc' ? 'reply' : general;
}
