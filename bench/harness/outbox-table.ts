import { randomUUID } from 'node:crypto';
import { DataSource, type QueryRunner } from 'typeorm';
import { createPostgresDialect } from '../../lib/persistence/postgres/postgres-dialect';
import { createTables } from '../../lib/persistence/tables';

/** Rows of the outbox table, made by SQL because a million of them are wanted. */
export interface Rows {
  readonly count: number;
  readonly status: 'ready' | 'scheduled' | 'sent' | 'dead';
  readonly key?: string;
  /** A queue's name. */
  readonly routingKey?: string;
}

/** The outbox table of a database of its own, and the claim as the dispatcher makes it. */
export class OutboxTable {
  private constructor(
    private readonly dataSource: DataSource,
    private readonly dialect: ReturnType<typeof createPostgresDialect>,
  ) {}

  static async create(url: string): Promise<OutboxTable> {
    const tables = createTables();
    const entities = [tables.outbox, tables.inbox, tables.lock];
    const dataSource = new DataSource({ type: 'postgres', url, entities });
    await dataSource.initialize();
    const dialect = createPostgresDialect(dataSource, tables);
    for (const sql of dialect.createTablesSql()) await dataSource.query(sql);
    return new OutboxTable(dataSource, dialect);
  }

  async insert({ count, status, key, routingKey = 'bench' }: Rows): Promise<void> {
    const future = status === 'scheduled' ? '1 day' : '0';
    const settled = status === 'sent' || status === 'dead' ? 'clock_timestamp()' : 'NULL';
    await this.dataSource.query(
      `INSERT INTO outbox_message
         (message_id, exchange, routing_key, body, status, attempts, available_at, settled_at, ordering_key)
       SELECT gen_random_uuid(), '', $3, rpad('{"pad":"', 198, 'x') || '"}', '${status}', ${status === 'dead' ? 10 : 0},
         clock_timestamp() + interval '${future}', ${settled}, $2
       FROM generate_series(1, $1)`,
      [count, key ?? null, routingKey],
    );
  }

  /** The first row of a key as if another process were sending it. */
  async claimFirstOf(key: string): Promise<void> {
    await this.dataSource.query(
      `UPDATE outbox_message SET claim_token = gen_random_uuid(), holds_key = true, claimed_until = clock_timestamp() + interval '1 hour'
       WHERE seq = (SELECT min(seq) FROM outbox_message WHERE ordering_key = $1)`,
      [key],
    );
  }

  vacuum(): Promise<unknown> {
    return this.dataSource.query('VACUUM ANALYZE outbox_message');
  }

  /** One claim, rolled back. @returns milliseconds, and how many rows it got */
  async claim(limit: number): Promise<{ milliseconds: number; claimed: number }> {
    const runner: QueryRunner = this.dataSource.createQueryRunner();
    await runner.connect();
    try {
      const started = performance.now();
      await runner.query('BEGIN ISOLATION LEVEL READ COMMITTED');
      const request = { token: randomUUID(), lease: 30_000, limit };
      const { length } = await this.dialect.outbox.claim(runner, request);
      const milliseconds = performance.now() - started;
      await runner.query('ROLLBACK');
      return { milliseconds, claimed: length };
    } finally {
      await runner.release();
    }
  }

  close(): Promise<void> {
    return this.dataSource.destroy();
  }
}
