import { Inject, type InjectionToken, type Type } from '@nestjs/common';
import { InboxService } from './inbox/inbox.service';
import { DeadLetterService } from './dead-letters/dead-letter.service';
import { LockService } from './locking/lock.service';
import { OutboxDispatcher } from './outbox/outbox-dispatcher';
import { OutboxService } from './outbox/outbox.service';
import { Transactions } from './transaction/transactions';
import { LocalHandlers } from './transport/local/local-handlers';

/** Name under which the default data source is known. */
export const DEFAULT_DATA_SOURCE = 'default';

/** The class itself for the default data source, a name of its own for any other. */
function tokenOf<T>(type: Type<T>, dataSource: string = DEFAULT_DATA_SOURCE): InjectionToken<T> {
  return dataSource === DEFAULT_DATA_SOURCE ? type : `${dataSource}${type.name}`;
}

/** Token of the {@link OutboxService} that writes to a data source. */
export const getOutboxToken = (dataSource?: string): InjectionToken<OutboxService> =>
  tokenOf(OutboxService, dataSource);

/** Token of the {@link InboxService} that remembers in a data source. */
export const getInboxToken = (dataSource?: string): InjectionToken<InboxService> =>
  tokenOf(InboxService, dataSource);

/** Token of the {@link OutboxDispatcher} of a data source. */
export const getOutboxDispatcherToken = (dataSource?: string): InjectionToken<OutboxDispatcher> =>
  tokenOf(OutboxDispatcher, dataSource);

/** Token of the {@link Transactions} of a data source. */
export const getTransactionsToken = (dataSource?: string): InjectionToken<Transactions> =>
  tokenOf(Transactions, dataSource);

/** Token of the {@link LockService} on a data source's lock table. */
export const getLockServiceToken = (dataSource?: string): InjectionToken<LockService> =>
  tokenOf(LockService, dataSource);

/** Token of the {@link DeadLetterService} on the tables of a data source. */
export const getDeadLetterServiceToken = (dataSource?: string): InjectionToken<DeadLetterService> =>
  tokenOf(DeadLetterService, dataSource);

/** Token of the {@link LocalHandlers} of a data source, for modules of this package. */
export const getLocalHandlersToken = (dataSource?: string): InjectionToken<LocalHandlers> =>
  tokenOf(LocalHandlers, dataSource);

/** Injects the {@link OutboxService} of a named data source. */
export const InjectOutbox = (dataSource?: string): ParameterDecorator & PropertyDecorator =>
  Inject(getOutboxToken(dataSource));

/** Injects the {@link InboxService} of a named data source. */
export const InjectInbox = (dataSource?: string): ParameterDecorator & PropertyDecorator =>
  Inject(getInboxToken(dataSource));

/** Injects the {@link OutboxDispatcher} of a named data source. */
export const InjectOutboxDispatcher = (dataSource?: string): ParameterDecorator & PropertyDecorator =>
  Inject(getOutboxDispatcherToken(dataSource));

/** Injects the {@link Transactions} of a named data source. */
export const InjectTransactions = (dataSource?: string): ParameterDecorator & PropertyDecorator =>
  Inject(getTransactionsToken(dataSource));

/** Injects the {@link LockService} of a named data source. */
export const InjectLocks = (dataSource?: string): ParameterDecorator & PropertyDecorator =>
  Inject(getLockServiceToken(dataSource));

/** Injects the {@link DeadLetterService} of a named data source. */
export const InjectDeadLetters = (dataSource?: string): ParameterDecorator & PropertyDecorator =>
  Inject(getDeadLetterServiceToken(dataSource));
