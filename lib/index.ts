export { InboxOutboxModule } from './inbox-outbox.module';
export type {
  CleanupOptions,
  InboxOptions,
  InboxOutboxModuleExtras,
  InboxOutboxModuleOptions,
  OnDuplicate,
  OnFailure,
  OnMissingId,
  OutboxOptions,
  Processing,
} from './inbox-outbox.options';
export {
  getInboxToken,
  getDeadLetterServiceToken,
  getLockServiceToken,
  getOutboxDispatcherToken,
  getOutboxToken,
  getTransactionsToken,
  InjectInbox,
  InjectDeadLetters,
  InjectLocks,
  InjectOutbox,
  InjectOutboxDispatcher,
  InjectTransactions,
} from './injection-tokens';

export { Idempotent } from './inbox/idempotent.decorator';
export type {
  HandlerRetryOptions,
  IdempotentOptions,
  MessageIdReader,
  OrderingKeyReader,
} from './inbox/idempotent.options';
export type { InboundMessage } from './inbox/inbound-message';
export type { FingerprintReader } from './inbox/content-hash';
export { InboxCtx } from './inbox/inbox-ctx.decorator';
export { isRpcErrorReply, RPC_ERROR_HEADER, type RpcErrorReply } from './inbox/rpc-error-reply';
export { inboxContext, type InboxContext } from './inbox/inbox-context';
export { InboxService } from './inbox/inbox.service';
export type { ProcessOptions, ProcessResult } from './inbox/process-options';

export { OutboxService } from './outbox/outbox.service';
export type {
  EnqueuedMessage,
  EnqueueOptions,
  OutboxMessage,
  PublishManyOptions,
  PublishOptions,
} from './outbox/publish-options';
export { OutboxDispatcher, type StopOptions } from './outbox/outbox-dispatcher';
export type { PassResult } from './outbox/dispatch-pass';

export { DeadLetterService } from './dead-letters/dead-letter.service';
export type {
  DeadLetter,
  DeadLetterDetails,
  DeadLetterFilter,
  DeadLetterId,
  DeadLetterPage,
  DeadLetterQuery,
} from './dead-letters/dead-letter';
export type { DeadMessage, OnDead } from './dead-letters/dead-letter-alarm';

export { OutboxContext, OutboxPayload } from './transport/local/handler-parameters';
export { OutboxHandler } from './transport/local/outbox-handler.decorator';
export { OutboxHandlerError, type OutboxHandlerProblem } from './transport/local/outbox-handler.error';
export type { OutboxHandlerOptions } from './transport/local/outbox-handler.options';
export {
  isOutboxContext,
  outboxContext,
  type OutboxContextType,
  type OutboxHandlerContext,
} from './transport/local/outbox-handler-context';

export { LockService, type LockedResult } from './locking/lock.service';
export { SchedulerLock } from './locking/scheduler-lock.decorator';
export type { LockConfig } from './locking/lock-config';
export type { LockContext, LockHandle } from './locking/lock-handle';
export type { SchedulerLockOptions } from './locking/scheduler-lock.options';

export { Transactions, type ExplicitTransaction, type RunOptions } from './transaction/transactions';
export type { IsolationLevel } from './transaction/transaction-scope';
export type { AfterCommitCallback, TransactionSource } from './transaction/transaction-source';

export type { AmqpTable } from './message/amqp-codec';
export type { AmqpProperties } from './message/amqp-properties';
export type { BackoffFunction, BackoffOptions } from './message/backoff';
export type { OnRepeatedContent, RepeatedContent } from './message/repeated-content';
export type { Duration } from './message/duration';
export type { MessageRetryOptions } from './message/message-retry';
export type { RetryIf } from './message/retry-policy';
export type { MessageEnvelope, MessageSerializer, SerializedPayload } from './message/serializer';
export { CreateInboxOutboxTables1764547200000, createInboxOutboxMigration } from './persistence/migration';
export { inboxOutboxEntities } from './persistence/registered-tables';
export type { TableOptions } from './persistence/tables';

export { HandlerTimeoutError } from './transaction/handler-timeout.error';
export { FingerprintConflictError } from './inbox/fingerprint-conflict.error';
export { IdempotentHandlerError } from './inbox/idempotent-handler.error';
export { MessageIdError } from './inbox/message-id.error';
export { MissingMessageIdError } from './inbox/missing-message-id.error';
export { ShuttingDownError } from './transaction/shutting-down.error';
export { UndecodableBodyError } from './inbox/undecodable-body.error';
export { UnprotectedHandlerError } from './inbox/unprotected-handler.error';
export { LockHandleUsedError } from './locking/lock-handle-used.error';
export { LockLostError } from './locking/lock-lost.error';
export { LockUnansweredError } from './locking/lock-unanswered.error';
export { NotLockedError } from './locking/not-locked.error';
export { SchedulerLockError } from './locking/scheduler-lock.error';
export { DamagedMessageError } from './message/damaged-message.error';
export { InvalidArgumentError } from './message/invalid-argument.error';
export { HandlerUnavailableError, type HandlerUnavailableOptions } from './message/handler-unavailable.error';
export { InvalidMessageError } from './message/invalid-message.error';
export { InvalidOptionError } from './message/invalid-option.error';
export { NonRetryableError } from './message/non-retryable.error';
export { DuplicateMessageError } from './persistence/duplicate-message.error';
export { InboxOutboxSchemaError } from './persistence/schema.error';
export { ServerTooOldError } from './persistence/server-too-old.error';
export { UnsupportedDatabaseError } from './persistence/unsupported-database.error';
export { AfterCommitUnsupportedError } from './transaction/after-commit-unsupported.error';
export { BridgeIncompatibleError } from './transaction/bridge-incompatible.error';
export { ConnectionLostError } from './transaction/connection-lost.error';
export { DataSourceNotBridgedError } from './transaction/data-source-not-bridged.error';
export { DatabaseUnansweredError } from './transaction/unanswered.error';
export { ForeignManagerError } from './transaction/foreign-manager.error';
export { IsolationLevelRefusedError } from './transaction/isolation-level-refused.error';
export { TransactionAbortedError } from './transaction/transaction-aborted.error';
export { TransactionEndedError } from './transaction/transaction-ended.error';
export { TransactionRequiredError } from './transaction/transaction-required.error';
