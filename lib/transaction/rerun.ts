import type { Dialect } from '../persistence/dialect';

const RERUNS = 5;

/**
 * Runs a transaction of the module's own again after a serialization failure or a deadlock, which say nothing about the work
 * itself; five times at most.
 */
export async function rerunOnConflict<T>(
  dialect: Pick<Dialect, 'isRetryable'>,
  work: () => Promise<T>,
): Promise<T> {
  for (let reruns = RERUNS; ; reruns--) {
    try {
      return await work();
    } catch (error) {
      if (reruns === 0 || !dialect.isRetryable(error)) throw error;
    }
  }
}
