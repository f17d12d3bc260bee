import type { HandlerRoom } from '../persistence/local-outbox-statements';
import type { LocalHandler } from '../transport/local/local-handler';
import type { HandlerPauses } from './handler-pauses';

/**
 * How many more messages each handler has room for; none of those that make a pause.
 *
 * @param running one entry for each run under way
 * @param limit of handlers that set none, and of all
 */
export function handlerRooms(
  handlers: readonly LocalHandler[],
  running: Iterable<LocalHandler>,
  limit: number,
  pauses: HandlerPauses,
): HandlerRoom[] {
  const busy = new Map<string, number>();
  for (const { name } of running) busy.set(name, (busy.get(name) ?? 0) + 1);
  return handlers
    .filter(({ name }) => !pauses.has(name))
    .map(({ name, options }) => ({
      name,
      limit: Math.min(limit, options.concurrency ?? limit) - (busy.get(name) ?? 0),
    }))
    .filter((room) => room.limit > 0);
}
