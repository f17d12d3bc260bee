import type { Logger } from '@nestjs/common';
import type { Subscription } from './handler-checks';
import type { RegisteredHandler } from './registered-handler';

/** What is rejected goes to the queue's dead-letter exchange, and without one it is dropped by the broker. */
export function warnOfLostRejections(
  { name, policy }: RegisteredHandler,
  subscriptions: readonly Subscription[],
  logger: Logger,
): void {
  if (policy.onFailure !== 'reject') return;
  const queues = subscriptions
    .filter((each) => !hasDeadLetterExchange(each))
    .map(({ effective }) => effective.queue);
  if (queues.length === 0) return;
  const named = [...new Set(queues.map((queue) => queue || 'its unnamed queue'))].join(', ');
  logger.warn(
    `${name} rejects what it cannot handle, and no dead-letter exchange is declared for ${named}: unless a policy on the ` +
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
