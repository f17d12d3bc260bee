import { setTimeout as delay } from 'node:timers/promises';
import { Logger } from '@nestjs/common';
import type { DeadLetterAlarm } from '../dead-letters/dead-letter-alarm';
import type { InboxKey } from '../persistence/inbox-statements';
import type { Burial } from './burial';
import { describe, keptMessage, type Delivery, type IdentifiedDelivery } from './delivery';
import { anonymousKey, type FailurePolicy } from './failure-policy';
import type { Handling } from './handling';
import { Hold } from './held-work';
import type { InboxStore } from './inbox-store';
import type { InboxTransaction } from './inbox-transaction';
import { KeyQueues } from './key-queues';
import { fingerprintOf, readMessageId } from './message-id';
import { MessageIdError } from './message-id.error';
import type { MessageKeeper } from './message-keeper';
import { MissingMessageIdError } from './missing-message-id.error';
import { NotCountedError } from './not-counted.error';
import { readOrderingKey } from './ordering-key';
import { OrderingKeyError } from './ordering-key.error';
import type { Pauses } from './pauses';
import { ack, reject, requeue, type Settlement } from './settlement';
import { ShuttingDownError } from '../transaction/shutting-down.error';
import type { SuspectsLane } from './suspects-lane';

/** The pause before a delivery that comes during a shutdown goes back, so that it does not come again at once. */
const SHUTDOWN_PAUSE = 500;

export interface InboxDeliveryParts {
  readonly store: InboxStore;
  readonly transaction: InboxTransaction;
  readonly handling: Handling;
  readonly keeper: Pick<MessageKeeper, 'storeMessage'>;
  readonly failures: FailurePolicy;
  readonly burial: Pick<Burial, 'settle'>;
  readonly lane: SuspectsLane;
  /** Called for each duplicate. */
  readonly onDuplicate: () => void;
  readonly pauses: Pauses;
  readonly alarm: Pick<DeadLetterAlarm, 'raise'>;
}

/**
 * One delivery, from its arrival to the answer for the broker. Protocol P1:
 *
 * 0. Read the message id. A message without one follows `onMissingId`. With `'reject'`, and where there is one that cannot be
 *    kept: kept as dead with its body, ack.
 * 1. A redelivered message enters the *suspects' lane* and is counted when its turn comes, in a commit of its own: a
 *    transaction that dies with the process counts nothing. No row to count: duplicate, ack. Over the limit: kept as dead
 *    with its body, ack.
 * 2. Begin; *take* the row as the first statement of the handler's transaction. Not ours: rollback, duplicate, ack.
 * 3. Run the handler in this transaction.
 * 4. Check that the transaction is still alive, commit.
 * 5. Ack, which golevelup does after this has resolved. If that fails the message comes again and is a duplicate.
 * 6. Failure: rollback, then the failure policy. A commit whose answer was lost is tried again, and then finds the row done.
 *
 * Serialization failures and deadlocks begin again with 2. at once, uncounted. When the database is away, the delivery is
 * held and goes on where it was when it is back.
 *
 * With `processing: 'deferred'` a delivery is only stored, as open or as claimed, in a commit that it shares with others, and acked. A row
 * past `seen` is left alone, so a duplicate never touches what is open, running or done. The same is done with a message
 * whose ordering key has an open one. What the table owns is handled by the processor (see inbox-processor.ts).
 */
export class InboxDelivery {
  private readonly logger = new Logger('Inbox');
  private readonly warned = new Set<string>();
  private readonly keys = new KeyQueues();

  constructor(private readonly parts: InboxDeliveryParts) {}

  /** @param abort fires when a shutdown cannot wait for the handler any longer */
  async settle(delivery: Delivery, abort: AbortSignal): Promise<Settlement> {
    try {
      if (this.parts.pauses.isStopping) await delay(SHUTDOWN_PAUSE, undefined, { signal: abort });
      this.parts.pauses.assertRunning();
      const identified = this.identify(delivery);
      if (identified instanceof Error) return await this.bury(delivery, identified);
      if (delivery.policy.processing === 'deferred') return await this.store(identified);
      const key = identified.orderingKey;
      if (key === undefined) return await this.settleIdentified(identified, abort);
      const queue = JSON.stringify([delivery.policy.consumer, key]);
      // A failed one is kept before the next of its key has its turn, and that one is stored behind it.
      return await this.keys.run(queue, () => this.settleIdentified(identified, abort));
    } catch (error) {
      // Another attempt would end in the same way.
      if (error instanceof OrderingKeyError) return this.settleFailure(withoutOrder(delivery), error);
      if (!(error instanceof ShuttingDownError) && !abort.aborted) throw error;
      this.logger.debug(`A message for ${delivery.policy.consumer} goes back to its queue: shutting down`);
      return requeue;
    }
  }

  /**
   * What failed outside of the inbox: an undecodable body, a guard, a transaction of the application around. It cannot be
   * tried again in place, so what the database is to blame for comes again from the broker.
   *
   * @param counted how often the message was redelivered, where that is known already
   */
  async settleFailure(delivery: Delivery, error: unknown, counted?: number): Promise<Settlement> {
    const blameless = this.parts.transaction.isTransient(error);
    // A message that is kept leaves the broker, which does not count its deliveries then.
    const again = blameless && delivery.policy.onFailure !== 'retry';
    const policy = again ? { ...delivery.policy, onFailure: 'requeue' as const } : delivery.policy;
    try {
      const identified = this.identify(withoutOrder({ ...delivery, policy }), orderingKeyOf(delivery));
      // What was to be rejected anyway needs no id for that.
      if (identified instanceof Error) {
        return policy.onFailure === 'reject' ? reject : await this.bury(delivery, identified);
      }
      const { key } = identified;
      let deliveries = counted ?? 0;
      if (key && counted === undefined && delivery.message.fields.redelivered) {
        const outcome = await this.parts.lane.run(() => this.count(identified, key));
        if (typeof outcome !== 'number') return outcome;
        deliveries = outcome;
      }
      return await this.parts.failures.apply(identified, { error, deliveries, blameless });
    } catch (unexpected) {
      if (!(unexpected instanceof ShuttingDownError)) throw unexpected;
      return requeue;
    }
  }

  private async settleIdentified(delivery: IdentifiedDelivery, abort: AbortSignal): Promise<Settlement> {
    const { key, message } = delivery;
    const { handling } = this.parts;
    let deliveries = 0;
    const { isJoined } = handling;
    const handle = () => {
      const counted = deliveries > delivery.attempt ? { ...delivery, attempt: deliveries } : delivery;
      return isJoined ? handling.join(counted, abort) : handling.run(counted, abort);
    };
    const suspect = async (key: InboxKey) => {
      const outcome = await (isJoined ? this.countJoined(delivery, key) : this.count(delivery, key));
      if (typeof outcome !== 'number') return outcome;
      deliveries = outcome;
      return handle();
    };
    const outcome =
      key && message.fields.redelivered ? await this.parts.lane.run(() => suspect(key)) : await handle();
    switch (outcome.kind) {
      case 'handled':
        return { kind: 'ack', value: outcome.value, ...(outcome.provisional && { provisional: true }) };
      case 'duplicate':
        return this.skip(delivery);
      case 'behind':
        return this.store(delivery);
      case 'failed':
        // The application's transaction has to roll back first; the failure policy comes after its end, when golevelup hands
        // the error over.
        if (isJoined) return { kind: 'throw', error: outcome.error, deliveries };
        // Outside of the lane: a pause before a requeue must not hold up the other suspects.
        return this.parts.failures.apply(delivery, { error: outcome.error, deliveries });
      default:
        return outcome;
    }
  }

  /** The table owns the message from here on. */
  private async store(delivery: IdentifiedDelivery): Promise<Settlement> {
    const { policy, message, orderingKey } = delivery;
    const key = delivery.key ?? anonymousKey(policy.consumer);
    const kept = keptMessage(key, message, orderingKey);
    const hold = new Hold(this.parts.pauses, this.logger, () => `the ${describe(delivery)}`);
    return (await hold.insist(() => this.parts.keeper.storeMessage(kept))) ? ack() : this.skip(delivery);
  }

  /**
   * Under an id of its own each time: nothing tells whether two of them are copies of one message, and a copy too many can be
   * discarded, a message that was taken for a copy is lost.
   */
  private bury({ policy, message }: Delivery, reason: Error): Promise<Settlement> {
    return this.parts.burial.settle(policy, message, reason, anonymousKey(policy.consumer).messageId);
  }

  /** @returns the error for a message that nothing can be told from another by */
  private identify(
    delivery: Delivery,
    orderingKey: string | undefined = readOrderingKey(delivery),
  ): IdentifiedDelivery | MissingMessageIdError | MessageIdError {
    const { policy, message } = delivery;
    const attempt = message.fields.redelivered ? 2 : 1;
    try {
      const id = readMessageId(message, policy.messageId);
      if (id === undefined && policy.onMissingId === 'process')
        return this.unprotected({ ...delivery, attempt, orderingKey });
      if (id === undefined && policy.onMissingId === 'reject')
        return new MissingMessageIdError(policy.consumer);
      const key = { consumer: policy.consumer, messageId: id ?? fingerprintOf(message) };
      return { ...delivery, attempt, orderingKey, key };
    } catch (error) {
      if (error instanceof MessageIdError) return error;
      throw error;
    }
  }

  private unprotected(delivery: Omit<IdentifiedDelivery, 'key'>): IdentifiedDelivery {
    const { consumer } = delivery.policy;
    if (!this.warned.has(consumer)) {
      this.warned.add(consumer);
      this.logger.warn(
        `A message for ${consumer} has no id and is handled without protection from duplicates, as onMissingId: 'process' ` +
          'says. Further ones are not reported.',
      );
    }
    return { ...delivery, key: undefined };
  }

  /**
   * The application's transaction holds a connection while the count waits for another one. Holding on for ever could leave
   * nobody a connection, so what goes wrong is thrown: the transaction ends, and the failure is settled after it.
   */
  private async countJoined(delivery: IdentifiedDelivery, key: InboxKey): Promise<number | Settlement> {
    try {
      return await this.count(delivery, key, (work) => work());
    } catch (error) {
      if (error instanceof ShuttingDownError) throw error;
      return { kind: 'throw', error: new NotCountedError(error), deliveries: 0 };
    }
  }

  /** Step 1. @returns the count, or what settles the message */
  private async count(
    delivery: IdentifiedDelivery,
    key: InboxKey,
    run: <T>(work: () => Promise<T>) => Promise<T> = this.insisting(delivery),
  ): Promise<number | Settlement> {
    const { store, pauses, alarm } = this.parts;
    const { maxAttempts } = delivery.policy;
    pauses.assertRunning();
    const count = await run(() => store.countRedelivery(key));
    if (count === undefined) return this.skip(delivery);
    if (count < maxAttempts) return count;
    let error = '';
    const reason = (last: string | null) =>
      (error =
        `Given up after ${count} deliveries. ` +
        (last ?? 'No error was recorded: the process may have died while it was handled.'));
    const message = keptMessage(key, delivery.message, delivery.orderingKey);
    if (await run(() => store.bury(message, reason))) {
      this.logger.error(`The ${describe(delivery)} is dead: given up after ${count} deliveries.`);
      const { exchange, routingKey } = message;
      alarm.raise({ box: 'inbox', ...key, exchange, routingKey, attempts: count, error });
    }
    return ack();
  }

  private insisting(delivery: IdentifiedDelivery): <T>(work: () => Promise<T>) => Promise<T> {
    const hold = new Hold(this.parts.pauses, this.logger, () => `the redelivered ${describe(delivery)}`);
    return (work) => hold.insist(work);
  }

  private skip(delivery: IdentifiedDelivery): Settlement {
    this.parts.onDuplicate();
    this.logger.debug(`The ${describe(delivery)} is a duplicate; it is only acked.`);
    return ack();
  }
}

/** Where the key decides nothing any more, and must not get in the way. */
function withoutOrder(delivery: Delivery): Delivery {
  return { ...delivery, policy: { ...delivery.policy, orderingKey: undefined } };
}

/** Of a delivery that has failed: what cannot be decoded has none. */
function orderingKeyOf(delivery: Delivery): string | undefined {
  try {
    return readOrderingKey(delivery);
  } catch {
    return undefined;
  }
}
