import pg from 'pg';

/** What pg's pool keeps of connections that are not in use; the last one put back is the first one taken. */
interface IdleConnections {
  _idle: unknown[];
}

/**
 * A driver whose pools hand out their connections in turn, the one that has rested longest first: whatever follows upon each
 * other goes through different connections, as behind a pooler.
 */
export const rotatingDriver: object = {
  ...pg,
  Pool: class extends pg.Pool {
    constructor(config?: pg.PoolConfig) {
      super(config);
      const { _idle: idle } = this as unknown as IdleConnections;
      idle.pop = () => idle.shift();
    }
  },
};

/** Opens all connections of a pool of this size, so that there is something to rotate. Returns their process ids. */
export async function fillPool(
  query: (sql: string) => Promise<{ pid: number }[]>,
  size: number,
): Promise<number[]> {
  const sql = 'SELECT pg_backend_pid() AS pid, pg_sleep(0.2)';
  const rows = await Promise.all(Array.from({ length: size }, () => query(sql)));
  return rows.map(([row]) => row!.pid);
}
