import type { OnDead } from './dead-letters/dead-letter-alarm';
import { type BackoffFunction, resolveBackoff, type ResolvedBackoffOptions } from './message/backoff';
import { toMilliseconds } from './message/duration';
import { InvalidOptionError } from './message/invalid-option.error';
import {
  attempts,
  integer,
  known,
  listOf,
  oneOf,
  optionalFunction,
  timer,
  withMethod,
} from './message/option-checks';
import { checkRetention } from './message/retention';
import type { RetryIf } from './message/retry-policy';
import type { MessageSerializer } from './message/serializer';
import type { RepeatedContent } from './message/repeated-content';
import type { TransactionSource } from './transaction/transaction-source';
import type {
  CleanupOptions,
  InboxOptions,
  InboxOutboxModuleOptions,
  OnDuplicate,
  OnFailure,
  OnMissingId,
  OutboxOptions,
  Processing,
} from './inbox-outbox.options';

/** Durations in milliseconds, every default filled in. */
export interface ResolvedOptions {
  readonly connection: string | undefined;
  readonly shutdownTimeout: number;
  readonly transactionSources: readonly TransactionSource[];
  readonly onDead: OnDead | undefined;
  readonly outbox: ResolvedOutboxOptions;
  readonly inbox: ResolvedInboxOptions;
}

export interface ResolvedOutboxOptions {
  readonly dispatch: 'leader' | 'competing' | 'off';
  readonly requireTransaction: boolean;
  readonly pollInterval: number;
  readonly wakeUp: 'notify' | 'poll';
  readonly batchSize: number;
  readonly maxInFlight: number;
  readonly maxConcurrentHandlers: number;
  readonly lease: number;
  readonly publishTimeout: number;
  readonly maxAttempts: number;
  readonly backoff: ResolvedBackoffOptions | BackoffFunction;
  readonly retryIf: RetryIf | undefined;
  readonly onDeadLetter: 'continue' | 'halt';
  readonly retention: number | false;
  readonly deduplicationRetention: number;
  readonly cleanup: ResolvedCleanupOptions;
  readonly serializer: MessageSerializer | undefined;
  readonly propagateContext: boolean;
}

export interface ResolvedInboxOptions {
  readonly onMissingId: OnMissingId;
  readonly onDuplicate: OnDuplicate;
  readonly processing: Processing;
  readonly onFailure: Exclude<OnFailure, 'reply'>;
  readonly fingerprint: boolean;
  readonly onRepeatedContent: ((event: RepeatedContent) => void | Promise<void>) | undefined;
  readonly timeout: number | undefined;
  readonly maxAttempts: number;
  readonly backoff: ResolvedBackoffOptions;
  readonly pollInterval: number;
  readonly lease: number;
  readonly maxBacklog: number;
  readonly maxConcurrentHandlers: number | undefined;
  readonly retention: number;
  readonly redeliveryHorizon: number;
  readonly cleanup: ResolvedCleanupOptions;
}

export interface ResolvedCleanupOptions {
  readonly interval: number;
  readonly batchSize: number;
}

/** @throws {InvalidOptionError} naming the option and its value */
export function resolveOptions(options: InboxOutboxModuleOptions = {}): ResolvedOptions {
  known('', options, ['connection', 'onDead', 'outbox', 'inbox', 'shutdownTimeout', 'transactionSources']);
  return {
    connection: options.connection,
    shutdownTimeout: timer('shutdownTimeout', options.shutdownTimeout ?? '20s', 0),
    onDead: optionalFunction('onDead', options.onDead),
    transactionSources: listOf('transactionSources', options.transactionSources ?? [], 'active'),
    // A null is a mistake and not a default, here and below.
    outbox: resolveOutbox(options.outbox === undefined ? {} : options.outbox),
    inbox: resolveInbox(options.inbox === undefined ? {} : options.inbox),
  };
}

function resolveOutbox(options: OutboxOptions): ResolvedOutboxOptions {
  known('outbox.', options, [
    'dispatch',
    'requireTransaction',
    'pollInterval',
    'wakeUp',
    'batchSize',
    'maxInFlight',
    'maxConcurrentHandlers',
    'lease',
    'publishTimeout',
    'maxAttempts',
    'backoff',
    'retryIf',
    'onDeadLetter',
    'retention',
    'deduplicationRetention',
    'cleanup',
    'serializer',
    'propagateContext',
  ]);
  const lease = timer('outbox.lease', options.lease ?? '30s', 100);
  const publishTimeout = timer(
    'outbox.publishTimeout',
    options.publishTimeout ?? Math.min(10_000, lease / 2),
    10,
  );
  if (publishTimeout >= lease) {
    throw new InvalidOptionError(
      'outbox.publishTimeout',
      options.publishTimeout,
      `less than outbox.lease (${lease} ms)`,
    );
  }
  const { retention = false, backoff = {} } = options;
  return {
    dispatch: oneOf('outbox.dispatch', options.dispatch ?? 'leader', ['leader', 'competing', 'off']),
    requireTransaction: oneOf('outbox.requireTransaction', options.requireTransaction ?? true, [true, false]),
    pollInterval: timer('outbox.pollInterval', options.pollInterval ?? '1s', 10),
    wakeUp: oneOf('outbox.wakeUp', options.wakeUp ?? 'notify', ['notify', 'poll']),
    batchSize: integer('outbox.batchSize', options.batchSize ?? 500, 1, 10_000),
    maxInFlight: integer('outbox.maxInFlight', options.maxInFlight ?? 1_000, 1, 10_000),
    maxConcurrentHandlers: integer(
      'outbox.maxConcurrentHandlers',
      options.maxConcurrentHandlers ?? 10,
      1,
      10_000,
    ),
    lease,
    publishTimeout,
    maxAttempts: attempts('outbox.maxAttempts', options.maxAttempts ?? 10),
    backoff: typeof backoff === 'function' ? backoff : resolveBackoff('outbox.backoff.', backoff),
    retryIf: optionalFunction('outbox.retryIf', options.retryIf),
    onDeadLetter: oneOf('outbox.onDeadLetter', options.onDeadLetter ?? 'continue', ['continue', 'halt']),
    retention: retention === false ? false : toMilliseconds('outbox.retention', retention),
    deduplicationRetention: toMilliseconds(
      'outbox.deduplicationRetention',
      options.deduplicationRetention ?? '24h',
    ),
    cleanup: resolveCleanup('outbox.cleanup.', options.cleanup ?? {}),
    serializer: withMethod('outbox.serializer', options.serializer, 'serialize'),
    propagateContext: oneOf('outbox.propagateContext', options.propagateContext ?? true, [true, false]),
  };
}

function resolveInbox(options: InboxOptions): ResolvedInboxOptions {
  known('inbox.', options, [
    'onMissingId',
    'onDuplicate',
    'processing',
    'onFailure',
    'fingerprint',
    'onRepeatedContent',
    'timeout',
    'maxAttempts',
    'backoff',
    'pollInterval',
    'lease',
    'maxBacklog',
    'maxConcurrentHandlers',
    'retention',
    'redeliveryHorizon',
    'cleanup',
  ]);
  const { maxConcurrentHandlers, maxBacklog = 10_000, timeout } = options;
  const resolved: ResolvedInboxOptions = {
    onMissingId: oneOf('inbox.onMissingId', options.onMissingId ?? 'reject', ON_MISSING_ID),
    onDuplicate: oneOf('inbox.onDuplicate', options.onDuplicate ?? 'skip', ON_DUPLICATE),
    processing: oneOf('inbox.processing', options.processing ?? 'inline', PROCESSING),
    onFailure: oneOf('inbox.onFailure', options.onFailure ?? 'retry', ON_FAILURE),
    fingerprint: oneOf('inbox.fingerprint', options.fingerprint ?? false, [true, false]),
    onRepeatedContent: optionalFunction('inbox.onRepeatedContent', options.onRepeatedContent),
    timeout: timeout === undefined ? undefined : timer('inbox.timeout', timeout, 1),
    maxAttempts: attempts('inbox.maxAttempts', options.maxAttempts ?? 10),
    backoff: resolveBackoff('inbox.backoff.', options.backoff ?? {}),
    pollInterval: timer('inbox.pollInterval', options.pollInterval ?? '1s', 10),
    lease: timer('inbox.lease', options.lease ?? '30s', 100),
    maxBacklog:
      maxBacklog === Infinity ? Infinity : integer('inbox.maxBacklog', maxBacklog, 1, 1_000_000_000),
    maxConcurrentHandlers:
      maxConcurrentHandlers === undefined
        ? undefined
        : integer('inbox.maxConcurrentHandlers', maxConcurrentHandlers, 1, 10_000),
    retention: toMilliseconds('inbox.retention', options.retention ?? '7d'),
    redeliveryHorizon: toMilliseconds('inbox.redeliveryHorizon', options.redeliveryHorizon ?? '1d'),
    cleanup: resolveCleanup('inbox.cleanup.', options.cleanup ?? {}),
  };
  checkRetention(resolved, resolved, 'inbox.maxAttempts and inbox.backoff');
  return resolved;
}

export const ON_MISSING_ID: readonly OnMissingId[] = ['reject', 'fingerprint', 'process'];
export const ON_DUPLICATE: readonly OnDuplicate[] = ['skip', 'pass'];
export const PROCESSING: readonly Processing[] = ['inline', 'deferred'];
export const ON_FAILURE: readonly Exclude<OnFailure, 'reply'>[] = ['retry', 'reject', 'requeue'];

function resolveCleanup(path: string, options: CleanupOptions): ResolvedCleanupOptions {
  known(path, options, ['interval', 'batchSize']);
  return {
    interval: timer(`${path}interval`, options.interval ?? '1m', 10),
    batchSize: integer(`${path}batchSize`, options.batchSize ?? 1_000, 1, 10_000),
  };
}
