import type { AmqpConnection } from '@golevelup/nestjs-rabbitmq';

/** What a shutdown asks of the parts, in this order. */
export interface ShutdownParts {
  /** Stops claiming and lets the confirms that are under way arrive; gives claims and leadership back. */
  stopDispatching(timeout: number): Promise<unknown>;
  /** Connections whose consumers stop taking messages. */
  connections(): readonly AmqpConnection[];
  /** Lets running handlers finish; what has not finished by then is rolled back and handed back to the broker. */
  drainHandlers(timeout: number): Promise<unknown>;
  onError(step: string, error: unknown): void;
}

/**
 * Stops everything while the database and the broker are still open: it runs in `beforeApplicationShutdown`, and both
 * TypeORM and golevelup close in `onApplicationShutdown`.
 *
 * 1. Cancel the consumers. golevelup does not: until its channels close it takes new messages, which nobody would finish.
 * 2. At the same time stop dispatching: no claim is begun after this point.
 * 3. Let the handlers that run finish.
 *
 * A step that fails or hangs never keeps the others from running.
 *
 * @param timeout milliseconds for all steps together
 */
export async function shutDown(parts: ShutdownParts, timeout: number): Promise<void> {
  const deadline = performance.now() + timeout;
  const left = () => Math.max(0, deadline - performance.now());
  const guarded = async (step: string, work: () => Promise<unknown>) => {
    try {
      await work();
    } catch (error) {
      parts.onError(step, error);
    }
  };
  const consumers = async () => {
    await guarded('cancelling consumers', () => within(left(), cancelConsumers(parts.connections())));
    await guarded('waiting for handlers', () => parts.drainHandlers(left()));
  };
  await Promise.all([consumers(), guarded('stopping the dispatcher', () => parts.stopDispatching(left()))]);
}

/** Tags of connections that were lost stay in golevelup's list; cancelling those is refused, which does no harm. */
async function cancelConsumers(connections: readonly AmqpConnection[]): Promise<void> {
  const tags = connections.flatMap((connection) =>
    connection.consumerTags.map((tag) => connection.cancelConsumer(tag)),
  );
  await Promise.allSettled(tags);
}

/** A broker that has stopped reading answers nothing: waiting for it must not use up the handlers' time. */
async function within(timeout: number, work: Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<void>((resolve) => (timer = setTimeout(resolve, Math.min(timeout / 4, 2_000))));
  await Promise.race([work, limit]);
  clearTimeout(timer);
}
