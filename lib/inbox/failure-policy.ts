import { randomUUID } from 'node:crypto';
import { Logger } from '@nestjs/common';
import ms from 'ms';
import type { DeadLetterAlarm } from '../dead-letters/dead-letter-alarm';
import type { InboxKey } from '../persistence/inbox-message';
import { describe, keptMessage, type IdentifiedDelivery } from './delivery';
import { Hold } from './held-work';
import type { InboxStore } from './inbox-store';
import type { Keeping } from './kept-store';
import type { MessageKeeper } from './message-keeper';
import { NackAnsweredError } from './nack-answered.error';
import { pauseAfter, type Pauses } from './pauses';
import { errorReply } from './rpc-error-reply';
import { ack, reject, requeue, type Settlement } from './settlement';
import { thrownMessage, thrownText } from '../message/thrown-text';

/** A message is never delivered more than twice a second, whatever fails. Milliseconds. */
const FIRST_PAUSE = 700;
const LONGEST_PAUSE = 60_000;
/** The first rejection goes at once, so that with the one after this there are two deliveries in the second. Milliseconds. */
const PAUSE_IN_CYCLE = 1_100;

/** Before a message is handled again for which nobody is to blame. Milliseconds. */
const BLAMELESS_PAUSE = 1_000;

/** What is known about a delivery that has failed. */
export interface Failure {
  readonly error: unknown;
  /** How often the message has been redelivered, as far as that was counted; 0 for not. */
  readonly deliveries: number;
  /** The database was away, or two transactions got into each other's way: no attempt is used up. */
  readonly blameless?: boolean;
}

/**
 * What happens to a delivery that has failed, after its transaction was rolled back (P1 step 6):
 *
 * - `retry`: keep the message with its body in a short transaction, open with its next date or dead; ack, whether a row has
 *   changed or not. While that is impossible the delivery is held, unacked, and it is tried again in place.
 * - `reject`, `requeue`: record the error in a short transaction. The row stays `seen`, so that a later replay is handled.
 *   Another copy of the message has been handled in the meantime: ack. Otherwise nack without requeue, after a pause where it was
 *   rejected before; or hold it for a pause that grows with its deliveries, then nack with requeue.
 * - `reply` (RPC): nothing is recorded; the requester gets the error.
 *
 * A handler that answers with a `Nack` has said itself what the broker is to do.
 */
export class FailurePolicy {
  private readonly logger = new Logger('Inbox');

  constructor(
    private readonly store: InboxStore,
    private readonly keeper: Pick<MessageKeeper, 'keep'>,
    private readonly pauses: Pauses,
    private readonly alarm: Pick<DeadLetterAlarm, 'raise'>,
  ) {}

  /** @throws {ShuttingDownError} when the application stops before the failure could be recorded */
  async apply(delivery: IdentifiedDelivery, failure: Failure): Promise<Settlement> {
    const { error, deliveries } = failure;
    const { key, policy } = delivery;
    const answered = error instanceof NackAnsweredError;
    if (policy.onFailure === 'retry' && !answered) return this.keep(delivery, failure);
    if (policy.onFailure === 'reply' && !answered) return this.reply(delivery, error);
    const again = answered ? error.requeue : policy.onFailure === 'requeue';
    this.log(delivery, error, `it is ${again ? 'requeued after a pause' : 'rejected'}`);
    if (key) {
      const hold = new Hold(this.pauses, this.logger, () => `the failed ${describe(delivery)}`);
      const status = await hold.insist(() => this.store.recordFailure(key, error));
      if (status !== undefined && status !== 'seen') return ack();
    }
    if (!again) {
      if (wasRejectedBefore(delivery)) await this.pauses.wait(PAUSE_IN_CYCLE);
      return reject;
    }
    await this.pauses.wait(pauseAfter(deliveries + 1, FIRST_PAUSE, LONGEST_PAUSE));
    return requeue;
  }

  private async keep(delivery: IdentifiedDelivery, failure: Failure): Promise<Settlement> {
    const { policy, message, orderingKey } = delivery;
    const { error, deliveries, blameless } = failure;
    const key = delivery.key ?? anonymousKey(policy.consumer);
    const kept = keptMessage(key, message, orderingKey);
    const used = deliveries > 0 || blameless ? 0 : 1;
    const schedule = (attempts: number) => (blameless ? BLAMELESS_PAUSE : policy.retry.next(attempts, error));
    const hold = new Hold(this.pauses, this.logger, () => `the failed ${describe(delivery)}`);
    const keeping = await hold.insist(() => this.keeper.keep(kept, error, used, schedule));
    this.log(delivery, error, this.fateOf(keeping));
    if (keeping.kind === 'dead') {
      const { exchange, routingKey } = kept;
      const { attempts } = keeping;
      const text = thrownMessage(error);
      this.alarm.raise({ box: 'inbox', ...key, exchange, routingKey, attempts, error: text, cause: error });
    }
    return ack();
  }

  /** Whoever sent the request is told, and knows whether to send it again. */
  private reply(delivery: IdentifiedDelivery, error: unknown): Settlement {
    this.log(delivery, error, 'the requester is told');
    return ack(errorReply(error, delivery.policy.errorReply));
  }

  private fateOf(keeping: Keeping): string {
    if (keeping.kind === 'open') return `it is kept, and handled again in ${ms(keeping.delay)}`;
    return keeping.kind === 'dead' ? 'it is dead' : 'another copy of it has been settled';
  }

  private log(delivery: IdentifiedDelivery, error: unknown, fate: string): void {
    const what = `The ${describe(delivery)} failed and was rolled back; ${fate}`;
    // An answer was chosen by the handler, so there is no stack worth reading.
    if (error instanceof NackAnsweredError) this.logger.warn(`${what}: ${error.message}`);
    else if (error instanceof Error) this.logger.error(`${what}: ${thrownMessage(error)}`, error.stack);
    else this.logger.error(`${what}: ${thrownText(error)}`);
  }
}

/** Its dead-letter exchange has brought it back, at once perhaps: without a pause the broker and we would spin. */
function wasRejectedBefore({ message }: IdentifiedDelivery): boolean {
  const deaths: unknown = message.properties.headers?.['x-death'];
  return (
    Array.isArray(deaths) && deaths.some((death: { reason?: unknown } | null) => death?.reason === 'rejected')
  );
}

/** For a message without an id (`onMissingId: 'process'`): what is kept needs one. */
export function anonymousKey(consumer: string): InboxKey {
  return { consumer, messageId: `anonymous:${randomUUID()}` };
}
