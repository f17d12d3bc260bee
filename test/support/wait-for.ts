import { setTimeout as delay } from 'node:timers/promises';
import { inspect } from 'node:util';

export interface WaitOptions {
  /** Milliseconds until it gives up. Default 20,000. */
  timeout?: number;
  /** Milliseconds between two looks at the condition. Default 25. */
  interval?: number;
  /** Ends the waiting early, with the signal's reason. */
  signal?: AbortSignal;
}

type Falsy = false | 0 | '' | null | undefined;

/**
 * Resolves with the condition's value as soon as it is truthy. A condition that throws counts as "not yet", because the
 * server asked may be the very thing that is coming up.
 *
 * @throws Error that names what was waited for and shows what the condition gave last.
 */
export async function waitFor<T>(
  description: string,
  condition: () => T | Promise<T>,
  { timeout = 20_000, interval = 25, signal }: WaitOptions = {},
): Promise<Exclude<T, Falsy>> {
  const deadline = Date.now() + timeout;
  let last: { value?: T; error?: unknown } | undefined;
  for (;;) {
    try {
      // A condition that never settles must not outlive the deadline.
      last = { value: await withDeadline(condition(), deadline) };
      if (last.value) return last.value as Exclude<T, Falsy>;
    } catch (error) {
      // Being cut short says less than what an earlier look has seen.
      if (!(error instanceof TooLate) || !last) last = { error };
    }
    signal?.throwIfAborted();
    if (Date.now() >= deadline) break;
    await delay(interval);
  }
  const seen =
    last.error !== undefined ? `it threw ${inspect(last.error)}` : `last value: ${inspect(last.value)}`;
  throw new Error(`Waited ${timeout} ms in vain for ${description}; ${seen}`, { cause: last.error });
}

class TooLate extends Error {}

async function withDeadline<T>(work: T | Promise<T>, deadline: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const tooLate = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => reject(new TooLate('the condition did not answer in time')),
      deadline - Date.now(),
    );
  });
  try {
    return await Promise.race([work, tooLate]);
  } finally {
    clearTimeout(timer);
  }
}
