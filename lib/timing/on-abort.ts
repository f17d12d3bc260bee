const waiting = new WeakMap<AbortSignal, Set<() => void>>();

/**
 * Calls `callback` once when the signal is aborted, at once if it is. Every message waits for signals that never come in the
 * life of most processes; a signal has one listener of ours however many wait, for adding and removing one costs as much as a
 * tenth of a statement.
 *
 * @returns stops waiting
 */
export function onAbort(signal: AbortSignal, callback: () => void): () => void {
  if (signal.aborted) {
    callback();
    return () => undefined;
  }
  const callbacks = waiting.get(signal) ?? listenTo(signal);
  // Of its own, so that one function may wait twice.
  const entry = () => callback();
  callbacks.add(entry);
  return () => void callbacks.delete(entry);
}

function listenTo(signal: AbortSignal): Set<() => void> {
  const callbacks = new Set<() => void>();
  waiting.set(signal, callbacks);
  signal.addEventListener(
    'abort',
    () => {
      const called = [...callbacks];
      callbacks.clear();
      for (const callback of called) callback();
    },
    { once: true },
  );
  return callbacks;
}
