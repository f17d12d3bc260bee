/**
 * Sets this process's wall clock ahead or back, as a host without time synchronisation has it; timers run as ever.
 *
 * @param milliseconds negative: back
 * @returns sets it right again
 */
export function shiftClock(milliseconds: number): () => void {
  const original = globalThis.Date;
  const now = () => original.now() + milliseconds;
  globalThis.Date = new Proxy(original, {
    construct: (target, args: unknown[], newTarget) =>
      Reflect.construct(target, args.length > 0 ? args : [now()], newTarget) as object,
    apply: () => new original(now()).toString(),
    get: (target, key, receiver) => (key === 'now' ? now : (Reflect.get(target, key, receiver) as unknown)),
  });
  return () => void (globalThis.Date = original);
}
