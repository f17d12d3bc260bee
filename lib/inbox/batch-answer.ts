import { Nack } from '@golevelup/nestjs-rabbitmq';
import type { Settlement } from './settlement';

/** Goes to the error handler of a batch, which answers each message on its own. */
export class BatchAnswersDifferError extends Error {
  override readonly name = 'BatchAnswersDifferError';

  constructor(nacked: number, all: number) {
    super(`${nacked} of the ${all} messages of a batch are not acked; each is answered on its own.`);
  }
}

/**
 * golevelup acks a batch or nacks it, as a whole. When it asks this one whether to requeue, which it does before it nacks
 * anything, it gets an error: and with that it leaves the batch to our error handler, which has the channel. An error
 * thrown by our interceptor would do the same, but for an exception filter that answers it, after which golevelup acks all.
 */
class DifferingNack extends Nack {
  constructor(private readonly error: BatchAnswersDifferError) {
    super();
  }

  override get requeue(): boolean {
    throw this.error;
  }
}

/** What golevelup is told about the batch. */
export function batchAnswer(settlements: readonly Settlement[]): Nack | undefined {
  const nacked = settlements.filter((each) => each.kind === 'nack');
  const [first] = nacked;
  if (!first) return undefined;
  const isSame =
    nacked.length === settlements.length && nacked.every(({ requeue }) => requeue === first.requeue);
  return isSame
    ? new Nack(first.requeue)
    : new DifferingNack(new BatchAnswersDifferError(nacked.length, settlements.length));
}
