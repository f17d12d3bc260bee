import { Semaphore } from 'async-mutex';
import type { DataSource } from 'typeorm';

/** Both `pg` and `mysql2` open this many connections unless told otherwise. */
const DEFAULT_POOL_SIZE = 10;

/** Connections that handlers never take: for the module's own work, and for renewing what is held. */
const RESERVE = 2;

/**
 * How many handlers may hold a connection at once. With as many handlers as connections everybody would wait for the
 * connection that somebody else needs to go on.
 */
export class ConcurrencyGate {
  private readonly semaphore: Semaphore;

  /** @param size handlers at once; default: the pool's size less a reserve of two, at least one */
  constructor(
    dataSource: DataSource,
    readonly size: number = Math.max(1, poolSize(dataSource) - RESERVE),
  ) {
    this.semaphore = new Semaphore(size);
  }

  run<T>(work: () => Promise<T>): Promise<T> {
    return this.semaphore.runExclusive(work);
  }
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
