import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { QueryRunner } from 'typeorm';
import type { OutboxTable } from '../outbox-dispatch/outbox-table';
import { outboxRow } from '../persistence/messages';

const KEYS = 100;
const WRITERS = 8;

/** Where a message goes: nearly all to the exchange that exists. */
export interface Destinations {
  readonly exchange: string;
  /** Created later. */
  readonly late: string;
}

/** What makes writers wait: they do not get further than `upTo` before `until` has come. */
export interface Barrier {
  readonly upTo: number;
  readonly until: Promise<unknown>;
}

/**
 * Eight writers that publish before they update: in each transaction messages first, and after them a counter row of their
 * key. That row is locked until the commit, so its figures are the order of the commits, found without the module.
 */
export class Traffic {
  written = 0;

  constructor(
    private readonly table: OutboxTable,
    private readonly destinations: Destinations,
    private readonly total: number,
  ) {}

  async prepare(): Promise<void> {
    await this.table.dataSource.query(`
      CREATE TABLE commit_counter (key text PRIMARY KEY, n int NOT NULL);
      INSERT INTO commit_counter SELECT 'k' || g, 0 FROM generate_series(0, ${KEYS - 1}) AS g;
      INSERT INTO commit_counter VALUES ('', 0);
      CREATE TABLE committed (message_id text PRIMARY KEY, key text NOT NULL, n int NOT NULL)`);
  }

  async run(barriers: readonly Barrier[]): Promise<void> {
    await Promise.all(Array.from({ length: WRITERS }, () => this.write(barriers)));
  }

  /** Ids in the order of the commits, for each key. */
  async committed(): Promise<Map<string, string[]>> {
    const rows = await this.table.dataSource.query<{ id: string; key: string }[]>(
      'SELECT message_id AS id, key FROM committed ORDER BY key, n',
    );
    const order = new Map<string, string[]>();
    for (const { id, key } of rows) order.set(key, [...(order.get(key) ?? []), id]);
    return order;
  }

  private async write(barriers: readonly Barrier[]): Promise<void> {
    const runner = this.table.dataSource.createQueryRunner();
    try {
      while (this.written < this.total) {
        for (const { upTo, until } of barriers) if (this.written >= upTo) await until;
        await this.transaction(runner);
      }
    } finally {
      await runner.release();
    }
  }

  private async transaction(runner: QueryRunner): Promise<void> {
    await runner.startTransaction('READ COMMITTED');
    // Mostly one key, and its messages in two steps; now and then several keys in one.
    const keys = Math.random() < 0.1 ? [randomKey(), randomKey(), randomKey()] : [randomKey()];
    const ids = new Map([...keys, ''].map((key) => [key, [] as string[]]));
    for (let step = Math.random() < 0.5 ? 2 : 1; step > 0; step--) {
      const rows = [...keys, ...(Math.random() < 0.3 ? [''] : [])].map((key) =>
        outboxRow({
          messageId: randomUUID(),
          orderingKey: key || null,
          exchange: Math.random() < 0.005 ? this.destinations.late : this.destinations.exchange,
        }),
      );
      await this.table.dialect.outbox.insert(runner, rows);
      for (const row of rows) ids.get(row.orderingKey ?? '')!.push(row.messageId);
      if (Math.random() < 0.3) await sleep(Math.random() * 3);
    }
    for (const key of [...ids.keys()].sort()) await count(runner, key, ids.get(key)!);
    if (Math.random() < 0.05) return runner.rollbackTransaction();
    await runner.commitTransaction();
    for (const each of ids.values()) this.written += each.length;
  }
}

function randomKey(): string {
  return `k${Math.floor(Math.random() * KEYS)}`;
}

async function count(runner: QueryRunner, key: string, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return;
  // No order is promised without a key, and its one counter would let the writers wait for each other.
  const counter =
    key === ''
      ? 'SELECT 0 AS n'
      : 'UPDATE commit_counter SET n = n + cardinality($2::text[]) WHERE key = $1 RETURNING n';
  await runner.query(
    `WITH counter AS (${counter})
     INSERT INTO committed (message_id, key, n)
     SELECT id, $1::text, counter.n - cardinality($2::text[]) + position
     FROM counter, unnest($2::text[]) WITH ORDINALITY AS u (id, position)`,
    [key, ids],
  );
}

/** Users who cancel messages: rows locked by an open transaction for a while, and then deleted, or after all not. */
export async function cancelNowAndThen(table: OutboxTable, over: () => boolean): Promise<Set<string>> {
  const cancelled = new Set<string>();
  const runner = table.dataSource.createQueryRunner();
  while (!over()) {
    await runner.startTransaction('READ COMMITTED');
    const rows = (await runner.query(
      `SELECT message_id AS id FROM outbox_message
       WHERE status = 'ready' AND claim_token IS NULL AND ordering_key IS NOT NULL
       ORDER BY seq OFFSET floor(random() * 20) LIMIT 3 FOR UPDATE SKIP LOCKED`,
    )) as { id: string }[];
    await sleep(60);
    if (Math.random() < 0.5) {
      await runner.query('DELETE FROM outbox_message WHERE message_id = ANY ($1)', [
        rows.map(({ id }) => id),
      ]);
      await runner.commitTransaction();
      for (const { id } of rows) cancelled.add(id);
    } else {
      await runner.rollbackTransaction();
    }
    await sleep(20);
  }
  await runner.release();
  return cancelled;
}
