import { Semaphore } from 'async-mutex';
import type { DataSource } from 'typeorm';

/** Both `pg` and `mysql2` open this many connections unless told otherwise. */
const DEFAULT_POOL_SIZE = 10;

/** Connections that handlers never take: for the module's own work, and for renewing what is held. */
const RESERVE = 2;

/** Lets the next one in. To be called once. */
export type LeaveGate = () => void;

/**
 * How many handlers may hold a connection at once. With as many handlers as connections everybody would wait for the
 * connection that somebody else needs to go on.
 */
export class ConcurrencyGate {
  private readonly semaphore: Semaphore;

  /**
   * @param size handlers at once
   * @param outer a gate that they have to pass as well
   */
  constructor(
    readonly size: number,
    private readonly outer?: ConcurrencyGate,
  ) {
    this.semaphore = new Semaphore(size);
  }

  /**
   * For all handlers that hold a connection of the data source: its pool's size less a reserve of two, at least one.
   *
   * @param atLeast where the application knows better
   */
  static ofPool(dataSource: DataSource, atLeast = 1): ConcurrencyGate {
    return new ConcurrencyGate(Math.max(atLeast, 1, poolSize(dataSource) - RESERVE));
  }

  /** Whether {@link enter} need not wait. */
  get hasPlace(): boolean {
    return !this.semaphore.isLocked() && (this.outer?.hasPlace ?? true);
  }

  /** Waits for a place, first come, first served. */
  async enter(): Promise<LeaveGate> {
    const [, leave] = await this.semaphore.acquire();
    return both(leave, await this.outer?.enter());
  }

  /** @returns `undefined` when there is no place at this moment */
  async tryEnter(): Promise<LeaveGate | undefined> {
    if (this.semaphore.isLocked()) return undefined;
    const [, leave] = await this.semaphore.acquire();
    if (!this.outer) return leave;
    const leaveOuter = await this.outer.tryEnter();
    if (leaveOuter) return both(leave, leaveOuter);
    leave();
    return undefined;
  }

  async run<T>(work: () => Promise<T>): Promise<T> {
    const leave = await this.enter();
    try {
      return await work();
    } finally {
      leave();
    }
  }
}

function both(inner: LeaveGate, outer: LeaveGate | undefined): LeaveGate {
  return () => {
    outer?.();
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
