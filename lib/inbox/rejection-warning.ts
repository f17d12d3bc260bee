import type { Logger } from '@nestjs/common';
import type { Subscription } from './handler-checks';
import type { RegisteredHandler } from './registered-handler';

/** What is rejected goes to the queue's dead-letter exchange, and without one it is dropped by the broker. */
export function warnOfLostRejections(
  { name, policy }: RegisteredHandler,
  subscriptions: readonly Subscription[],
  logger: Logger,
): void {
  // One without an id is rejected too, and golevelup's own publish() sets none.
  const rejects = [
    policy.onFailure === 'reject' && 'what it cannot handle',
    policy.onMissingId === 'reject' && 'messages without an id',
  ];
  const rejected = rejects.filter(Boolean).join(' and ');
  if (rejected === '') return;
  const queues = subscriptions
    .filter((each) => !hasDeadLetterExchange(each))
    .map(({ effective }) => effective.queue);
  if (queues.length === 0) return;
  const named = [...new Set(queues.map((queue) => queue || 'its unnamed queue'))].join(', ');
  logger.warn(
    `${name} rejects ${rejected}, and no dead-letter exchange is declared for ${named}: unless a policy on the ` +
      'broker sets one, the broker drops those messages. Set queueOptions.deadLetterExchange.',
  );
}

function hasDeadLetterExchange({ connection, effective }: Subscription): boolean {
  const declared = connection.configuration.queues.find((queue) => queue.name === effective.queue)?.options;
  return [effective.queueOptions, declared].some(
    (options) =>
      options?.deadLetterExchange !== undefined ||
      (options?.arguments as Record<string, unknown> | undefined)?.['x-dead-letter-exchange'] !== undefined,
  );
}
