import { Logger } from '@nestjs/common';
import { describe, type IdentifiedDelivery } from './delivery';
import { Hold } from './held-work';
import type { InboxStore } from './inbox-store';
import { NackAnsweredError } from './nack-answered.error';
import { pauseAfter, type Pauses } from './pauses';
import { ack, reject, requeue, type Settlement } from './settlement';

/** A message is never delivered more than twice a second, whatever fails. Milliseconds. */
const FIRST_PAUSE = 700;
const LONGEST_PAUSE = 60_000;

/**
 * What happens to a delivery that has failed, after its transaction was rolled back (P1 step 6):
 *
 * 1. Record the error in a short transaction. The row stays `seen`, so that a later replay is handled.
 * 2. Another copy of the message has been handled in the meantime: ack.
 * 3. `reject`: nack without requeue. `requeue`: hold it for a pause that grows with its deliveries, then nack with requeue.
 */
export class FailurePolicy {
  private readonly logger = new Logger('Inbox');

  constructor(
    private readonly store: InboxStore,
    private readonly pauses: Pauses,
  ) {}

  /**
   * @param deliveries how often the message has been redelivered, as far as it is known
   * @throws {ShuttingDownError} when the application stops before the failure could be recorded
   */
  async apply(delivery: IdentifiedDelivery, error: unknown, deliveries: number): Promise<Settlement> {
    const { key, policy } = delivery;
    const again = error instanceof NackAnsweredError ? error.requeue : policy.onFailure === 'requeue';
    this.log(delivery, error, again);
    if (key) {
      const hold = new Hold(this.pauses, this.logger, `the failed ${describe(delivery)}`);
      const status = await hold.insist(() => this.store.recordFailure(key, error));
      if (status !== undefined && status !== 'seen') return ack();
    }
    if (!again) return reject;
    await this.pauses.wait(pauseAfter(deliveries + 1, FIRST_PAUSE, LONGEST_PAUSE));
    return requeue;
  }

  private log(delivery: IdentifiedDelivery, error: unknown, again: boolean): void {
    const what = `The ${describe(delivery)} failed and was rolled back; it is ${again ? 'requeued after a pause' : 'rejected'}`;
    // An answer was chosen by the handler, so there is no stack worth reading.
    if (error instanceof NackAnsweredError) this.logger.warn(`${what}: ${error.message}`);
    else if (error instanceof Error) this.logger.error(`${what}: ${error.message}`, error.stack);
    else this.logger.error(`${what}: ${String(error)}`);
  }
}
