import type { InFlightWindow } from './in-flight-window';

export interface OrderedWork<T, R> {
  /** In the order in which items of one key must be worked on. */
  readonly items: readonly T[];
  /** `null`: no order promised. */
  keyOf(item: T): string | null;
  /** Must not reject. */
  work(item: T): Promise<R>;
  /** Whether the next item of the same key may follow this result. */
  goesOn(result: R): boolean;
  /** Shared with other runs. */
  readonly window: InFlightWindow;
}

/**
 * Works on many items at once, but on one of each key at a time.
 *
 * 1. Ready are the items without a key and the first of each key, in order.
 * 2. Ready items start while the window has room.
 * 3. When one is done and its result lets the key go on, the next of its key is ready, before all others: a key advances
 *    one step per round trip anyway.
 * 4. When the result does not let the key go on, the rest of the key is not started: it has no result.
 */
export class OrderedRun<T, R> {
  /** What was finished. Items that were held back, or under way when it was given up, are missing. */
  readonly results = new Map<T, R>();
  private readonly started = new Set<T>();
  private readonly behind = new Map<string, T[]>();
  /** Taken from the end. */
  private readonly ready: T[] = [];
  private running = 0;
  private waitsForRoom = false;
  private over = false;
  private finish!: () => void;
  private readonly finished = new Promise<void>((resolve) => (this.finish = resolve));

  constructor(private readonly order: OrderedWork<T, R>) {
    for (const item of order.items) {
      const key = order.keyOf(item);
      const queue = key === null ? undefined : this.behind.get(key);
      if (queue) queue.push(item);
      else this.ready.push(item);
      if (key !== null && !queue) this.behind.set(key, []);
    }
    this.ready.reverse();
    for (const queue of this.behind.values()) queue.reverse();
  }

  /** Resolves when nothing is under way and nothing more can start. */
  async run(): Promise<void> {
    this.advance();
    await this.finished;
  }

  /** Ends the run now; nobody waits any longer for what is under way. */
  giveUp(): void {
    this.over = true;
    this.finish();
  }

  /** Whether work on the item was begun. */
  wasStarted(item: T): boolean {
    return this.started.has(item);
  }

  private advance(): void {
    while (!this.over && this.ready.length > 0 && this.order.window.enter()) {
      void this.start(this.ready.pop() as T);
    }
    if (this.over || (this.ready.length === 0 && this.running === 0)) return this.giveUp();
    if (this.ready.length > 0 && !this.waitsForRoom) {
      this.waitsForRoom = true;
      this.order.window.whenRoom(() => {
        this.waitsForRoom = false;
        this.advance();
      });
    }
  }

  private async start(item: T): Promise<void> {
    this.running++;
    this.started.add(item);
    const result = await this.order.work(item);
    this.running--;
    if (!this.over) {
      this.results.set(item, result);
      this.makeNextReady(item, result);
    }
    this.order.window.leave();
    this.advance();
  }

  private makeNextReady(item: T, result: R): void {
    const key = this.order.keyOf(item);
    if (key === null || !this.order.goesOn(result)) return;
    const next = this.behind.get(key)?.pop();
    if (next !== undefined) this.ready.push(next);
  }
}
