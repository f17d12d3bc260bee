/**
 * Calls `fn`; what it throws at once becomes a rejection too. Unlike an async function it adds no promise to the one that it
 * gets, which counts where each statement and each message passes (docs/performance.md).
 */
export function asPromise<T>(fn: () => Promise<T>): Promise<T> {
  try {
    return fn();
  } catch (error) {
    const reason = error as Error;
    return Promise.reject(reason);
  }
}
