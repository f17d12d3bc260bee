import { Injectable } from '@nestjs/common';
import type { DataSource, EntityManager } from 'typeorm';
import { InvalidMessageError } from '../message/invalid-message.error';
import type { MessageSerializer, PayloadSerializer } from '../message/serializer';
import type { OutboxInsert, OutboxStatements } from '../persistence/outbox-statements';
import type { PendingMessageStatements } from '../persistence/pending-message-statements';
import { callAfterCommit, runnerOf } from '../transaction/joined-work';
import { ownTransaction } from '../transaction/own-work';
import { TransactionRequiredError } from '../transaction/transaction-required.error';
import type { ExplicitTransaction, Transactions } from '../transaction/transactions';
import { PendingMessages } from './pending-messages';
import { withContext } from './propagated-context';
import type {
  EnqueuedMessage,
  EnqueueOptions,
  OutboxMessage,
  PublishManyOptions,
  PublishOptions,
} from './publish-options';
import { toLocalInsert } from './to-local-insert';
import { toOutboxInsert } from './to-outbox-insert';

/** What the service works with. */
export interface OutboxServiceDependencies {
  readonly dataSource: DataSource;
  readonly statements: Pick<OutboxStatements, 'insert'> & PendingMessageStatements;
  readonly transactions: Pick<Transactions, 'resolve' | 'afterCommit'>;
  /** Called after each outer commit with new messages, to wake the dispatcher. */
  readonly notify: () => void;
  /** False: a call outside of a transaction writes in one of its own, instead of throwing. */
  readonly requireTransaction: boolean;
  /** Makes bodies. Default `JSON.stringify`. */
  readonly serializer?: MessageSerializer | PayloadSerializer;
  /** Whether messages carry the correlation, causation and trace of what they come from. Default true. */
  readonly propagateContext?: boolean;
}

/** For a write outside of the application's transactions, in milliseconds. An ordering key can be held by somebody. */
const OWN_WRITE = { statementTimeout: 30_000, lockTimeout: 30_000 };

/**
 * Writes messages into the outbox table, in the caller's transaction: a message exists if and only if that transaction
 * commits.
 *
 * 1. Check and serialise every message; nothing reaches the database before all are in order.
 * 2. Find the transaction: the explicit manager's, or the active one.
 * 3. Insert all of them in one statement.
 * 4. After the outer commit, wake the dispatcher. Where the commit cannot be seen (a transaction of a library that does not
 *    tell), the next poll finds the messages.
 */
@Injectable()
export class OutboxService {
  private readonly pending: PendingMessages;

  constructor(private readonly dependencies: OutboxServiceDependencies) {
    this.pending = new PendingMessages(dependencies);
  }

  /**
   * Publishes one message, with the arguments of golevelup's `AmqpConnection.publish()`.
   *
   * @param exchange empty for the default exchange, where the routing key is a queue's name
   * @param routingKey may be empty where the exchange is not, e.g. for a fanout exchange
   * @param payload a Buffer, or what JSON can express; serialised now, so that changing it later has no effect
   * @returns the message id; for a deduplication key that is taken, the id of the message that has it
   * @throws {InvalidMessageError} for what cannot be sent; before any SQL, so the transaction stays usable
   * @throws {TransactionRequiredError} outside of a transaction, unless `requireTransaction` is off
   * @throws {TransactionEndedError} in work that outlived the transaction it was started in
   * @throws {ForeignManagerError} when `manager` belongs to another data source
   * @throws {DuplicateMessageError} when the message id exists already
   */
  async publish(
    exchange: string,
    routingKey: string,
    payload: unknown,
    options: PublishOptions = {},
  ): Promise<string> {
    const { manager, ...rest } = options ?? {};
    const message = { exchange, routingKey, payload, options: rest };
    const [id] = await this.write('publish()', this.toInserts([message]), manager);
    return id!;
  }

  /**
   * Publishes messages in the order given, in one statement. Locks for ordering keys are taken in a fixed order, so that
   * batches cannot deadlock with each other.
   *
   * @returns the message ids in the order given; empty for no messages
   * @throws as {@link publish}; nothing is written when one of the messages is not in order
   */
  async publishMany(
    messages: readonly OutboxMessage[],
    { manager }: PublishManyOptions = {},
  ): Promise<string[]> {
    if (messages.length === 0) return [];
    return this.write('publishMany()', this.toInserts(messages), manager);
  }

  /**
   * Writes one message for an `@OutboxHandler()` method, which a process of the application runs after the commit.
   *
   * @param handler the name given to `@OutboxHandler()`, at most 255 bytes. It need not be known in this process: a message
   *   waits until there is a process that knows it
   * @param payload a Buffer, or what JSON can express; serialised now, so that changing it later has no effect
   * @returns the message id; for a deduplication key that is taken, the id of the message that has it
   * @throws as {@link publish}
   */
  async enqueue(handler: string, payload: unknown, options: EnqueueOptions = {}): Promise<string> {
    const { manager, ...rest } = options ?? {};
    const message = { handler, payload, options: rest };
    const [id] = await this.write('enqueue()', this.toLocalInserts([message]), manager);
    return id!;
  }

  /**
   * Enqueues messages in the order given, in one statement; see {@link publishMany}.
   *
   * @returns the message ids in the order given; empty for no messages
   * @throws as {@link publish}; nothing is written when one of the messages is not in order
   */
  async enqueueMany(
    messages: readonly EnqueuedMessage[],
    { manager }: PublishManyOptions = {},
  ): Promise<string[]> {
    if (messages.length === 0) return [];
    return this.write('enqueueMany()', this.toLocalInserts(messages), manager);
  }

  private toInserts(messages: readonly OutboxMessage[]): OutboxInsert[] {
    const { serializer } = this.dependencies;
    return messages.map((message) => toOutboxInsert(this.inContext(message), serializer));
  }

  private toLocalInserts(messages: readonly EnqueuedMessage[]): OutboxInsert[] {
    return messages.map((message) => toLocalInsert(message, (made) => this.inContext(made)));
  }

  private inContext(message: OutboxMessage): OutboxMessage {
    const { propagateContext = true } = this.dependencies;
    return propagateContext ? withContext(message) : message;
  }

  /**
   * Cancels a message that was not sent yet: planned, waiting for its turn or for its next attempt. In the active transaction
   * where there is one, so that it happens together with what else changes there or not at all; else on its own. Whoever sends
   * does not wait for that transaction; the messages behind it in its ordering key do.
   *
   * A message that is cancelled after an attempt may have arrived: for some attempts nobody knows.
   *
   * @returns whether it was cancelled: false when it is under way, was sent, is dead, or there is no such message
   * @throws {InvalidArgumentError} for what cannot be an id
   * @throws {TransactionEndedError} in work that outlived the transaction it was started in
   * @throws {ForeignManagerError} when `manager` belongs to another data source
   */
  cancel(messageId: string, transaction: ExplicitTransaction = {}): Promise<boolean> {
    return this.pending.cancel(messageId, transaction);
  }

  /**
   * Gives a message that was not sent yet another date, an instant on the database's clock; one that is past means at once.
   * Transactions as with {@link cancel}. A message that has failed before holds its ordering key back until the new date; one
   * that has not takes its place by the order of publishing when the date has come.
   *
   * @returns whether it was changed: false when it is under way, was sent, is dead, or there is no such message
   * @throws as {@link cancel}; {@link InvalidArgumentError} for a date that no database can hold
   */
  reschedule(messageId: string, at: Date, transaction: ExplicitTransaction = {}): Promise<boolean> {
    return this.pending.reschedule(messageId, at, transaction);
  }

  private async write(
    call: string,
    inserts: readonly OutboxInsert[],
    manager: EntityManager | undefined,
  ): Promise<string[]> {
    const { dataSource, statements, transactions, notify, requireTransaction } = this.dependencies;
    checkDistinctIds(inserts);
    const active = transactions.resolve({ manager });
    if (active) {
      const ids = await statements.insert(runnerOf(active), inserts);
      // Where the commit cannot be seen the next poll finds the messages, and no poll is left out.
      callAfterCommit(transactions, active, notify);
      return ids;
    }
    if (requireTransaction) throw new TransactionRequiredError(call);
    const ids = await ownTransaction(dataSource, OWN_WRITE, (runner) => statements.insert(runner, inserts));
    notify();
    return ids;
  }
}

/** The database would refuse it too, but it would abort the transaction. */
function checkDistinctIds(inserts: readonly OutboxInsert[]): void {
  const seen = new Set<string>();
  for (const { messageId } of inserts) {
    if (seen.has(messageId)) {
      throw new InvalidMessageError('messageId', messageId, 'It occurs twice in the batch; ids are unique');
    }
    seen.add(messageId);
  }
}
