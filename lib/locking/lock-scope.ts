import { ContextSlot } from '../context/context-slot';
import type { LockContext } from './lock-handle';

/** A lock that the running code is under, and whose lock table it is in. */
interface Holding {
  readonly table: object;
  readonly lock: LockContext;
}

const slot = new ContextSlot<readonly Holding[]>();

/** Runs `fn`, and everything it starts, under the lock. */
export function runUnder<T>(table: object, lock: LockContext, fn: () => T): T {
  return slot.run([...(slot.get() ?? []), { table, lock }], fn);
}

/**
 * The innermost lock that the calling code is under and that is still held: work that was started under a lock and not
 * awaited is under it no longer.
 *
 * @param name default: whichever it is
 */
export function currentLock(table: object, name?: string): LockContext | undefined {
  return slot
    .get()
    ?.filter((each) => each.table === table && each.lock.held && (name ?? each.lock.name) === each.lock.name)
    .at(-1)?.lock;
}
