import type { DataSource } from 'typeorm';
import { onAbort } from '../timing/on-abort';
import { ShuttingDownError } from './shutting-down.error';

/** Both `pg` and `mysql2` open this many connections unless told otherwise. */
const DEFAULT_POOL_SIZE = 10;

/** Connections that handlers never take: for the module's own work, and for renewing what is held. */
const RESERVE = 2;

/** Lets the next one in. To be called once. */
export type LeaveGate = () => void;

/**
 * How many handlers may hold a connection at once. With as many handlers as connections everybody would wait for the
 * connection that somebody else needs to go on.
 *
 * A counter of its own: the usual semaphores cannot be entered without a promise, nor left by one who waits, and every message
 * passes here.
 */
export class ConcurrencyGate {
  private free: number;
  /** In the order in which they came. Nobody waits while a place is free. */
  private readonly waiting = new Set<() => void>();
  private readonly leaveThis: LeaveGate = () => this.leave();

  /**
   * @param size handlers at once
   * @param outer a gate that they have to pass as well
   */
  constructor(
    readonly size: number,
    private readonly outer?: ConcurrencyGate,
  ) {
    this.free = size;
  }

  /**
   * For all handlers that hold a connection of the data source: its pool's size less a reserve of two, at least one.
   *
   * @param atLeast where the application knows better
   */
  static ofPool(dataSource: DataSource, atLeast = 1): ConcurrencyGate {
    return new ConcurrencyGate(Math.max(atLeast, 1, poolSize(dataSource) - RESERVE));
  }

  /** @returns `undefined` when there is no place at this moment */
  tryEnter(): LeaveGate | undefined {
    if (this.free === 0) return undefined;
    this.free -= 1;
    if (!this.outer) return this.leaveThis;
    const leaveOuter = this.outer.tryEnter();
    if (leaveOuter) return both(this.leaveThis, leaveOuter);
    this.leave();
    return undefined;
  }

  /**
   * Waits for a place, first come, first served.
   *
   * @param stop gives up waiting
   * @throws {ShuttingDownError} when `stop` fires before there is a place
   */
  enter(stop?: AbortSignal): Promise<LeaveGate> {
    const entered = this.waitForPlace(stop);
    return this.outer ? entered.then((leave) => this.enterOuter(leave, stop)) : entered;
  }

  async run<T>(work: () => Promise<T>): Promise<T> {
    const leave = this.tryEnter() ?? (await this.enter());
    try {
      return await work();
    } finally {
      leave();
    }
  }

  private async enterOuter(leaveThis: LeaveGate, stop: AbortSignal | undefined): Promise<LeaveGate> {
    const outer = this.outer as ConcurrencyGate;
    try {
      return both(leaveThis, outer.tryEnter() ?? (await outer.enter(stop)));
    } catch (error) {
      leaveThis();
      throw error;
    }
  }

  private waitForPlace(stop: AbortSignal | undefined): Promise<LeaveGate> {
    return new Promise((resolve, reject) => {
      if (this.free > 0) {
        this.free -= 1;
        resolve(this.leaveThis);
        return;
      }
      let forget: (() => void) | undefined = undefined;
      const enter = () => {
        forget?.();
        resolve(this.leaveThis);
      };
      this.waiting.add(enter);
      if (!stop) return;
      forget = onAbort(stop, () => {
        this.waiting.delete(enter);
        reject(new ShuttingDownError());
      });
    });
  }

  /** Hands the place to whoever has waited longest. */
  private leave(): void {
    const [next] = this.waiting;
    if (!next) {
      this.free += 1;
      return;
    }
    this.waiting.delete(next);
    next();
  }
}

function both(inner: LeaveGate, outer: LeaveGate): LeaveGate {
  return () => {
    outer();
    inner();
  };
}

/** Where TypeORM's drivers read it from, `extra` last because it goes to the pool as it is. */
function poolSize(dataSource: DataSource): number {
  const { poolSize, extra } = dataSource.options as { poolSize?: unknown; extra?: Record<string, unknown> };
  for (const size of [extra?.['max'], extra?.['connectionLimit'], poolSize]) {
    const count = Number(size);
    if (Number.isInteger(count) && count > 0) return count;
  }
  return DEFAULT_POOL_SIZE;
}
