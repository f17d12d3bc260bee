import { setTimeout as delay } from 'node:timers/promises';
import { Logger } from '@nestjs/common';
import type { DeadLetterAlarm } from '../dead-letters/dead-letter-alarm';
import type { InboxKey } from '../persistence/inbox-statements';
import type { ConcurrencyGate } from '../transaction/concurrency-gate';
import { describe, keptMessage, type Delivery, type IdentifiedDelivery } from './delivery';
import type { FailurePolicy } from './failure-policy';
import { Hold } from './held-work';
import type { InboxStore } from './inbox-store';
import type { Attempt, InboxTransaction } from './inbox-transaction';
import { fingerprintOf, readMessageId } from './message-id';
import { MissingMessageIdError } from './missing-message-id.error';
import { NotCountedError } from './not-counted.error';
import type { Pauses } from './pauses';
import { ack, reject, requeue, type Settlement } from './settlement';
import { ShuttingDownError } from '../transaction/shutting-down.error';
import type { SuspectsLane } from './suspects-lane';

/** Reruns at once after serialization failures and deadlocks, uncounted. */
const MAX_CONFLICTS = 5;

/** A handler under which the connection dies this often in a row is what kills it. */
const MAX_LOST_CONNECTIONS = 5;

/** The pause before a delivery that comes during a shutdown goes back, so that it does not come again at once. */
const SHUTDOWN_PAUSE = 500;

export interface InboxDeliveryParts {
  readonly store: InboxStore;
  readonly transaction: InboxTransaction;
  readonly failures: FailurePolicy;
  readonly gate: ConcurrencyGate;
  readonly lane: SuspectsLane;
  readonly pauses: Pauses;
  /** Deliveries without an outcome until a message is dead. */
  readonly maxAttempts: number;
  readonly alarm: Pick<DeadLetterAlarm, 'raise'>;
}

/**
 * One delivery, from its arrival to the answer for the broker. Protocol P1:
 *
 * 0. Read the message id. A message without one follows `onMissingId`, one whose id cannot be kept is rejected.
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
 */
export class InboxDelivery {
  private readonly logger = new Logger('Inbox');
  private readonly warned = new Set<string>();

  constructor(private readonly parts: InboxDeliveryParts) {}

  /** @param abort fires when a shutdown cannot wait for the handler any longer */
  async settle(delivery: Delivery, abort: AbortSignal): Promise<Settlement> {
    try {
      if (this.parts.pauses.isStopping) await delay(SHUTDOWN_PAUSE, undefined, { signal: abort });
      this.parts.pauses.assertRunning();
      const identified = this.identify(delivery);
      return identified ? await this.settleIdentified(identified, abort) : reject;
    } catch (error) {
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
    const transient = this.parts.transaction.isTransient(error);
    const policy = transient ? { ...delivery.policy, onFailure: 'requeue' as const } : delivery.policy;
    try {
      const identified = this.identify({ ...delivery, policy });
      if (!identified) return reject;
      const { key } = identified;
      let deliveries = counted ?? 0;
      if (key && counted === undefined && delivery.message.fields.redelivered) {
        const outcome = await this.parts.lane.run(() => this.count(identified, key));
        if (typeof outcome !== 'number') return outcome;
        deliveries = outcome;
      }
      return await this.parts.failures.apply(identified, error, deliveries);
    } catch (unexpected) {
      if (!(unexpected instanceof ShuttingDownError)) throw unexpected;
      return requeue;
    }
  }

  private async settleIdentified(delivery: IdentifiedDelivery, abort: AbortSignal): Promise<Settlement> {
    const { key, message } = delivery;
    let deliveries = 0;
    const handle = () => {
      const counted = { ...delivery, attempt: Math.max(delivery.attempt, deliveries) };
      return this.parts.transaction.isJoined
        ? this.join(counted, deliveries, abort)
        : this.handle(counted, abort);
    };
    const suspect = async (key: InboxKey) => {
      const outcome = await (this.parts.transaction.isJoined
        ? this.countJoined(delivery, key)
        : this.count(delivery, key));
      if (typeof outcome !== 'number') return outcome;
      deliveries = outcome;
      return handle();
    };
    const outcome =
      key && message.fields.redelivered ? await this.parts.lane.run(() => suspect(key)) : await handle();
    // Outside of the lane: a pause before a requeue must not hold up the other suspects.
    return outcome.kind === 'failed'
      ? this.parts.failures.apply(delivery, outcome.error, deliveries)
      : outcome;
  }

  private identify(delivery: Delivery): IdentifiedDelivery | undefined {
    const { policy, message } = delivery;
    const attempt = message.fields.redelivered ? 2 : 1;
    try {
      const id = readMessageId(message, policy.messageId);
      if (id !== undefined)
        return { ...delivery, attempt, key: { consumer: policy.consumer, messageId: id } };
      if (policy.onMissingId === 'process') return this.unprotected({ ...delivery, attempt });
      if (policy.onMissingId === 'reject') throw new MissingMessageIdError(policy.consumer);
      return {
        ...delivery,
        attempt,
        key: { consumer: policy.consumer, messageId: fingerprintOf(message) },
      };
    } catch (error) {
      const { message: text, stack } = error as Error;
      this.logger.error(`A message for ${policy.consumer} is rejected. ${text}`, stack);
      return undefined;
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
    const { store, pauses, maxAttempts, alarm } = this.parts;
    pauses.assertRunning();
    const count = await run(() => store.countRedelivery(key));
    if (count === undefined) return this.skip(delivery);
    if (count < maxAttempts) return count;
    let error = '';
    const reason = (last: string | null) =>
      (error =
        `Given up after ${count} deliveries. ` +
        (last ?? 'No error was recorded: the process may have died while it was handled.'));
    const message = keptMessage(key, delivery.message);
    if (await run(() => store.bury(message, reason))) {
      this.logger.error(`The ${describe(delivery)} is dead: given up after ${count} deliveries.`);
      const { exchange, routingKey } = message;
      alarm.raise({ box: 'inbox', ...key, exchange, routingKey, attempts: count, error });
    }
    return ack();
  }

  private insisting(delivery: IdentifiedDelivery): <T>(work: () => Promise<T>) => Promise<T> {
    const hold = new Hold(this.parts.pauses, this.logger, `the redelivered ${describe(delivery)}`);
    return (work) => hold.insist(work);
  }

  /** Steps 2 to 4, as often as it takes. */
  private async handle(
    delivery: IdentifiedDelivery,
    abort: AbortSignal,
  ): Promise<Settlement | { kind: 'failed'; error: unknown }> {
    const { gate, transaction, pauses } = this.parts;
    const hold = new Hold(pauses, this.logger, `the ${describe(delivery)}`);
    let conflicts = 0;
    let lost = 0;
    let uncertain: Extract<Attempt, { kind: 'database' }> | undefined;
    for (;;) {
      const attempt = await gate.run(async () => {
        pauses.assertRunning();
        return transaction.run(uncertain ? skippingDuplicates(delivery) : delivery, abort);
      });
      switch (attempt.kind) {
        case 'handled':
          return ack(attempt.value);
        case 'duplicate':
          // The commit whose answer was lost has taken place after all.
          return uncertain ? ack(uncertain.value) : this.skip(delivery);
        case 'failed':
          return attempt;
        case 'conflict':
          conflicts += 1;
          if (conflicts > MAX_CONFLICTS) return { kind: 'failed', error: attempt.error };
          await pauses.wait(Math.random() * 10 * 2 ** conflicts);
          break;
        case 'database':
          if (attempt.during === 'commit') uncertain = attempt;
          if (attempt.during === 'handler') lost += 1;
          if (lost > MAX_LOST_CONNECTIONS) return { kind: 'failed', error: attempt.error };
          await hold.wait(attempt.error);
      }
    }
  }

  /**
   * Once, in a savepoint of the application's transaction. What fails is thrown, so that the application's transaction can
   * roll back too; the failure policy comes after its end, when golevelup hands the error over.
   */
  private async join(
    delivery: IdentifiedDelivery,
    deliveries: number,
    abort: AbortSignal,
  ): Promise<Settlement> {
    const attempt = await this.parts.transaction.run(delivery, abort);
    if (attempt.kind === 'handled') return { kind: 'ack', value: attempt.value, provisional: true };
    if (attempt.kind === 'duplicate') return this.skip(delivery);
    return { kind: 'throw', error: attempt.error, deliveries };
  }

  private skip(delivery: IdentifiedDelivery): Settlement {
    this.logger.debug(`The ${describe(delivery)} is a duplicate; it is only acked.`);
    return ack();
  }
}

/** What is done then was done by this very delivery, so `pass` is not meant. */
function skippingDuplicates(delivery: IdentifiedDelivery): IdentifiedDelivery {
  return { ...delivery, policy: { ...delivery.policy, onDuplicate: 'skip' } };
}
