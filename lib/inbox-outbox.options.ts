import type { OnDead } from './dead-letters/dead-letter-alarm';
import { type BackoffFunction, type BackoffOptions } from './message/backoff';
import { type Duration } from './message/duration';
import type { RetryIf } from './message/retry-policy';
import type { MessageSerializer } from './message/serializer';
import type { RepeatedContent } from './message/repeated-content';
import type { TableOptions } from './persistence/tables';
import type { TransactionSource } from './transaction/transaction-source';

/** Options of `InboxOutboxModule.forRoot()`. Everything has a default. Bad values are refused at start, by name. */
export interface InboxOutboxModuleOptions {
  /** Name of the golevelup connection that the outbox publishes on. Default: the app's `AmqpConnection`. */
  connection?: string;
  /**
   * Called for each message that has become dead, in the outbox or the inbox, after the commit that made it so: for alarms. It
   * is not waited for, and what it throws is only logged. `DeadLetterService` knows all that are dead.
   */
  onDead?: OnDead;
  outbox?: OutboxOptions;
  inbox?: InboxOptions;
  /**
   * How long a shutdown waits for running handlers and for confirms that are under way. Default `'20s'`, which fits
   * into the 30 s that Kubernetes grants. What has not finished by then is handed back.
   */
  shutdownTimeout?: Duration;
  /** Libraries that open transactions other than by `dataSource.transaction()`, asked in this order. Default: none. */
  transactionSources?: readonly TransactionSource[];
}

/** What must be known before any factory runs, since entities and injection tokens depend on it. */
export interface InboxOutboxModuleExtras extends TableOptions {
  /** Name of the TypeORM data source. Default: the default data source. */
  dataSource?: string;
}

export interface OutboxOptions {
  /**
   * Who sends. `'leader'` (default): one instance at a time, elected in the database. `'competing'`: every instance
   * claims messages of its own. `'off'`: this instance only writes.
   */
  dispatch?: 'leader' | 'competing' | 'off';
  /** Whether `publish()` outside a transaction throws. Default true; with false it writes on its own. */
  requireTransaction?: boolean;
  /**
   * How often to look for due messages where no wake-up came. Default `'1s'`. While nothing happens and wake-ups of other
   * processes arrive, only every fifth time; never later than this after a planned date.
   */
  pollInterval?: Duration;
  /**
   * How other processes learn of new messages: `'notify'` (default): by PostgreSQL's NOTIFY after the commit, on one
   * connection more than the pool's for each process; `'poll'`: at their next poll, which finds everything in any case.
   */
  wakeUp?: 'notify' | 'poll';
  /** Messages claimed at once, 1 to 10,000. Default 500. */
  batchSize?: number;
  /** Messages on the wire without a confirm, 1 to 10,000. Default 1,000. */
  maxInFlight?: number;
  /**
   * Local handlers (`@OutboxHandler()`) at once in one process, of each kind: those with a transaction, of which there are
   * never more than the pool's size less two, and those without. 1 to 10,000. Default 10.
   */
  maxConcurrentHandlers?: number;
  /** How long a claim and the leadership last without renewal. Default `'30s'`. */
  lease?: Duration;
  /** How long to wait for one confirm; shorter than the lease. Default `'10s'`. */
  publishTimeout?: Duration;
  /** Attempts until a message is dead. A broker that is away uses up none. Default 10; `Infinity` for no limit. */
  maxAttempts?: number;
  /** The pause between two attempts: figures, or a function. Default: 1 s, doubled each time up to 1 h, 20 % random. */
  backoff?: BackoffOptions | BackoffFunction;
  /** Whether a message that failed with this error is tried again; false: it is dead at once. Default: always true. */
  retryIf?: RetryIf;
  /**
   * What a dead message does to its ordering key: `'continue'` (default): the key goes on with the next message. `'halt'`:
   * nothing of the key is sent until the dead one is replayed or discarded. Messages without a key are never held back.
   * Whoever claims decides, so give all instances that dispatch the same value.
   */
  onDeadLetter?: 'continue' | 'halt';
  /** Keep sent rows for this long; `false` (default): they are deleted when the broker has confirmed them. */
  retention?: Duration | false;
  /** How long after a message was sent its deduplication key is remembered; its row is kept that long. Default `'24h'`. */
  deduplicationRetention?: Duration;
  cleanup?: CleanupOptions;
  /** Makes the bodies. Default: the golevelup connection's `serializer`, which is JSON by default. */
  serializer?: MessageSerializer;
  /**
   * Whether messages carry what they come from: the correlation id of the message that is being handled (or its id, where
   * it has none), its id as the header `x-causation-id`, and the trace (`traceparent`, `tracestate`). Default true.
   */
  propagateContext?: boolean;
}

export interface InboxOptions {
  /** What to do with a message without an id. Default `'reject'`. See {@link OnMissingId}. */
  onMissingId?: OnMissingId;
  /** Default `'skip'`. See {@link OnDuplicate}. */
  onDuplicate?: OnDuplicate;
  /** Default `'inline'`. See {@link Processing}. */
  processing?: Processing;
  /** Default `'retry'`; for RPC handlers, whose requester waits, `'reply'`. See {@link OnFailure}. */
  onFailure?: Exclude<OnFailure, 'reply'>;
  /**
   * Whether a hash of each message's body is kept. Then another body under a known id is not taken for a duplicate but kept as
   * dead, and the same body under a new id is reported. Default false.
   */
  fingerprint?: boolean;
  /** Called when the same content has been handled under a new id, with `fingerprint` only. A warning is logged anyway. */
  onRepeatedContent?: (event: RepeatedContent) => void | Promise<void>;
  /** How long a handler may take before it is rolled back and has failed. Default: no limit. */
  timeout?: Duration;
  /**
   * Runs until a message is dead: that failed, with `'retry'` and `'requeue'`, or that ended with a killed process. Default
   * 10; `Infinity` for no limit.
   */
  maxAttempts?: number;
  /** The pause between two runs of a message that is kept. Default: 1 s, doubled each time up to 1 h, 20 % random. */
  backoff?: BackoffOptions;
  /** How often to look for kept messages that are due where no wake-up came. Default `'1s'`. */
  pollInterval?: Duration;
  /** How long a claim of kept messages lasts without renewal. Default `'30s'`. */
  lease?: Duration;
  /**
   * Open messages in the inbox table above which deliveries that would add to it wait in the broker. Checked about once a
   * second. Default 10,000; `Infinity` for no limit.
   */
  maxBacklog?: number;
  /** Handlers that may hold a connection at once. Default: the pool's size less two, at least one. */
  maxConcurrentHandlers?: number;
  /**
   * How long handled messages are remembered, counted from when they were handled. At least the `redeliveryHorizon`, and
   * what all runs of a message take. Default `'7d'`.
   */
  retention?: Duration;
  /**
   * After what time nobody sends a message again: not the broker, not its publisher, and nobody replays it from a dead-letter
   * queue. A copy that comes after the `retention` is handled as a new message. Default `'1d'`.
   */
  redeliveryHorizon?: Duration;
  cleanup?: CleanupOptions;
}

/**
 * What happens to a message without an id: `'reject'` (not handled, but kept in the inbox table as dead with the reason, and
 * acked; an RPC request is answered with the error), `'fingerprint'` (a hash of routing key and body is its id), `'process'`
 * (handled without protection from duplicates).
 */
export type OnMissingId = 'reject' | 'fingerprint' | 'process';

/**
 * What happens to a duplicate: `'skip'` (acked, the handler does not run), `'pass'` (the handler runs once more for a
 * message that is done, in a transaction of its own; copies of one that is not yet done are acked all the same).
 */
export type OnDuplicate = 'skip' | 'pass';

/**
 * When a message is handled: `'inline'` (while the broker waits for the ack), `'deferred'` (it is stored in the inbox table,
 * acked, and handled from there).
 */
export type Processing = 'inline' | 'deferred';

/**
 * What happens after a handler has failed and its transaction was rolled back: `'retry'` (the message is kept in the inbox
 * table and acked, and handled again from there with growing pauses, until it is dead), `'reject'` (nack without requeue:
 * the queue's dead-letter exchange gets it, and a later replay from there is handled), `'requeue'` (the broker delivers it
 * again, after a pause). RPC handlers only, and their default: `'reply'` (the requester gets an {@link RpcErrorReply}, and
 * nothing of the request is kept).
 */
export type OnFailure = 'retry' | 'reject' | 'requeue' | 'reply';

export interface CleanupOptions {
  /** Default `'1m'`. */
  interval?: Duration;
  /** Rows deleted in one statement, 1 to 10,000. Default 1,000. */
  batchSize?: number;
}
