import { AsyncLocalStorage } from 'node:async_hooks';

type Values = readonly unknown[];

/**
 * One storage for all slots. Node hands each storage on with each promise that is made, and handling one message makes about
 * a hundred: four storages were a sixth of what a handler cost (docs/performance.md).
 */
const storage = new AsyncLocalStorage<Values>();
let slots = 0;

/** Something that the code which runs inside of it can ask for, as with an `AsyncLocalStorage` of its own. */
export class ContextSlot<T> {
  private readonly index = slots++;

  /** The value of the innermost {@link run} that the calling code was started in. */
  get(): T | undefined {
    return storage.getStore()?.[this.index] as T | undefined;
  }

  /** Runs `fn`, and everything that it starts, with this value. */
  run<R>(value: T, fn: () => R): R {
    return runWith([this.with(value)], fn);
  }

  /** For {@link runWith}. */
  with(value: T): SlotValue {
    return { index: this.index, value };
  }
}

/** A value for one slot. */
export interface SlotValue {
  readonly index: number;
  readonly value: unknown;
}

/** Runs `fn`, and everything that it starts, with all of these values: one step into the storage instead of several. */
export function runWith<R>(given: readonly SlotValue[], fn: () => R): R {
  const values = storage.getStore()?.slice() ?? [];
  for (const { index, value } of given) values[index] = value;
  return storage.run(values, fn);
}
