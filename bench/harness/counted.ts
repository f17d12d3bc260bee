import type { Sample } from './measure';
import type { World } from './world';

/** Messages per second, with what came out of the queue against what went in. */
export async function counted(
  world: World,
  queue: string,
  count: number,
  milliseconds: number,
): Promise<Sample> {
  const { total, distinct } = await world.take(queue, count);
  return { value: (count / milliseconds) * 1_000, lost: count - distinct, double: total - distinct };
}
