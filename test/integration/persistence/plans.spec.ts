import { randomUUID } from 'node:crypto';
import type { QueryRunner } from 'typeorm';
import { outboxRow } from './messages';
import { openPostgres, type Postgres } from './postgres';

interface PlanNode {
  'Node Type': string;
  'Relation Name'?: string;
  'Index Name'?: string;
  'Actual Rows': number;
  'Shared Hit Blocks': number;
  'Shared Read Blocks': number;
  Plans?: PlanNode[];
}

interface Explained {
  readonly blocks: number;
  readonly nodes: PlanNode[];
}

/** C26: neither what is planned nor what is over may cost a claim or the cleanup anything. */
describe('Statements on a table with many rows that are not due', () => {
  let pg: Postgres;

  beforeAll(async () => {
    pg = await openPostgres();
    await pg.database.query(`
      INSERT INTO outbox_message
        (message_id, exchange, routing_key, body, ordering_key, status, attempts, available_at, settled_at, deduplication_key)
      SELECT g::text, 'e', 'r', '{}', CASE WHEN g % 2 = 0 THEN 'k' || g % 5000 END,
        CASE g % 5 WHEN 0 THEN 'dead' WHEN 1 THEN 'sent' WHEN 2 THEN 'sent' ELSE 'scheduled' END,
        CASE g % 5 WHEN 0 THEN 10 ELSE 0 END,
        now() + interval '1 day',
        CASE WHEN g % 5 < 3 THEN now() - interval '1 hour' END,
        CASE g % 5 WHEN 2 THEN 'd' || g END
      FROM generate_series(1, 400000) AS g`);
    await insertDue(100);
    await pg.database.query('ANALYZE outbox_message');
  });
  afterAll(() => pg.close());

  const insertDue = (count: number) =>
    pg.withRunner((runner) =>
      pg.dialect.outbox.insert(
        runner,
        Array.from({ length: count }, (_, i) => outboxRow({ orderingKey: i % 2 ? `due-${i % 20}` : null })),
      ),
    );

  it('C26: a claim, its renewal and its settlement read by index, and little', async () => {
    const token = randomUUID();
    const claim = await explain((runner) =>
      pg.dialect.outbox.claim(runner, { token, lease: 60_000, limit: 500 }),
    );
    expectSmall(claim, 10_000);
    const settled = await explain((runner) =>
      pg.dialect.outbox.settle(runner, {
        token,
        sent: ['400001', '400002'],
        failed: [{ seq: '400003', error: 'x', next: 1_000 }],
        released: ['400004'],
        keepSent: false,
      }),
    );
    expectSmall(settled, 1_000);
    expectSmall(
      await explain((runner) => pg.dialect.outbox.renew(runner, token, 1_000, ['400001', '400002'])),
      1_000,
    );
  });

  it('C26: the look for due messages and the cleanup read by index, and little', async () => {
    expectSmall(await explain((runner) => pg.dialect.outbox.anythingDue(runner)), 100);
    const nothing = await explain((runner) => pg.dialect.outbox.deleteSent(runner, 7_200_000, 1_000));
    expectSmall(nothing, 100);
    const some = await explain((runner) => pg.dialect.outbox.deleteSent(runner, 60_000, 100));
    expectSmall(some, 5_000);
  });

  it('C26: 50,000 dead messages that stop their keys cost the claim of other keys nothing', async () => {
    const claim = () =>
      explain((runner) =>
        pg.dialect.outbox.claim(runner, { token: randomUUID(), lease: 60_000, limit: 500, haltOnDead: true }),
      );
    const before = await claim();
    await pg.database.query(`
      INSERT INTO outbox_message (message_id, exchange, routing_key, body, ordering_key, status, attempts, settled_at)
      SELECT 'halt' || g, 'e', 'r', '{}', 'halted-' || g, 'dead', 10, now() FROM generate_series(1, 50000) AS g`);
    const unknown = await claim();
    await pg.database.query('ANALYZE outbox_message');
    const known = await claim();
    for (const after of [unknown, known]) {
      expectSmall(after, 10_000);
      expect(after.blocks).toBeLessThanOrEqual(1.3 * before.blocks);
    }
  });

  it('C26: a claim for local handlers looks at few of the 50,000 waiting messages of one key', async () => {
    await pg.database.query(`
      INSERT INTO outbox_message (message_id, transport, exchange, routing_key, body, ordering_key)
      SELECT 'local' || g, 'local', '', 'save', '{}', 'hot' FROM generate_series(1, 50000) AS g;
      INSERT INTO outbox_message (message_id, transport, exchange, routing_key, body, ordering_key)
      SELECT 'other' || g, 'local', '', 'save', '{}', 'other-' || g FROM generate_series(1, 20) AS g`);
    const request = { lease: 60_000, limit: 10, handlers: [{ name: 'save', limit: 10 }] };
    const claim = (runner: QueryRunner) =>
      pg.dialect.outbox.claimLocal(runner, { ...request, token: randomUUID() });
    // Not analysed yet: the planner does not know of any of them.
    const unknown = await explain(claim);
    await pg.database.query('ANALYZE outbox_message');
    for (const claimed of [unknown, await explain(claim)]) expectSmall(claimed, 10_000);
    expect(await claimedKeys(claim)).toEqual(['hot']);
    // The key is busy then, and the others are seen.
    expect(await claimedKeys(claim)).toEqual(Array.from({ length: 10 }, (_, n) => `other-${n + 1}`));
  });

  it('C26: 30,000 messages of the same consumer that are done cost a claim of kept ones, and the look before it, nothing', async () => {
    const consumers = ['busy'];
    const done = (from: number, count: number) =>
      pg.database.query(`
        INSERT INTO inbox_message (consumer, message_id, status, processed_at, available_at)
        SELECT 'busy', 'done' || g, 'done', now(), now() FROM generate_series(${from}, ${from + count - 1}) AS g`);
    const look = () => explain((runner) => pg.dialect.inbox.anyKept(runner, consumers));
    const claim = () =>
      explain((runner) =>
        pg.dialect.inbox.claimKept(runner, { lease: 60_000, limit: 10, consumers, token: randomUUID() }),
      );
    await pg.database.query(`
      INSERT INTO inbox_message (consumer, message_id, status, available_at, body, ordering_key)
      SELECT 'busy', 'open' || g, 'open', now(), '', CASE WHEN g > 3 THEN 'k' || g END FROM generate_series(1, 5) AS g`);
    // Known to the planner are, in this order: nothing, how it is, and a table much smaller than it is.
    for (const prepare of [
      () => done(1, 15_000),
      () => pg.database.query('ANALYZE inbox_message'),
      () => done(15_001, 15_000),
    ]) {
      await prepare();
      for (const { blocks, nodes } of [await look(), await claim()]) {
        expect(nodes.filter((node) => node['Node Type'] === 'Seq Scan')).toEqual([]);
        expect(Math.max(...nodes.map((node) => node['Actual Rows']))).toBeLessThanOrEqual(50);
        expect(blocks).toBeLessThan(150);
      }
    }
  });

  it('C26: a claim of kept messages looks at few of the 50,000 waiting ones of one key', async () => {
    await pg.database.query(`
      INSERT INTO inbox_message (consumer, message_id, status, available_at, body, ordering_key)
      SELECT 'c', 'hot' || g, 'open', now() - interval '1 minute', '', 'hot' FROM generate_series(1, 50000) AS g;
      INSERT INTO inbox_message (consumer, message_id, status, available_at, body, ordering_key)
      SELECT 'c', 'other' || g, 'open', now(), '', 'other-' || g FROM generate_series(1, 20) AS g`);
    const claim = (runner: QueryRunner) =>
      pg.dialect.inbox.claimKept(runner, { lease: 60_000, limit: 10, consumers: ['c'], token: randomUUID() });
    // Not analysed yet: the planner does not know of any of them.
    const unknown = await explain(claim);
    await pg.database.query('ANALYZE inbox_message');
    // The messages without a key are looked for among all that are due.
    for (const { blocks, nodes } of [unknown, await explain(claim)]) {
      expect(nodes.filter((node) => node['Node Type'] === 'Seq Scan')).toEqual([]);
      expect(blocks).toBeLessThan(60_000);
    }
    expect(await claimedKeys(claim)).toEqual(['hot']);
    // The key is busy then, and the others are seen.
    expect(await claimedKeys(claim)).toEqual(Array.from({ length: 10 }, (_, n) => `other-${n + 1}`));
  });

  it('stays quick with 100,000 waiting messages of a busy key and 50,000 keys that wait for a retry', async () => {
    await pg.database.query(`
      INSERT INTO outbox_message (message_id, exchange, routing_key, body, ordering_key)
      SELECT 'hot' || g, 'e', 'r', '{}', 'hot' FROM generate_series(1, 100000) AS g;
      INSERT INTO outbox_message (message_id, exchange, routing_key, body, ordering_key, status, attempts, available_at)
      SELECT 'retry' || g, 'e', 'r', '{}', 'a-key-of-some-length-' || g, 'scheduled', 1, now() + interval '1 hour'
      FROM generate_series(1, 50000) AS g`);
    const claim = () =>
      pg.withRunner(async (runner) => {
        await runner.startTransaction('READ COMMITTED');
        const started = performance.now();
        const rows = await pg.dialect.outbox.claim(runner, {
          token: randomUUID(),
          lease: 60_000,
          limit: 500,
        });
        const time = performance.now() - started;
        await runner.commitTransaction();
        return { keys: new Set(rows.map((row) => row.orderingKey)), time };
      });
    // Not analysed yet: the planner does not know of any of them.
    expect((await claim()).keys.has('hot')).toBe(true);
    await insertDue(100);
    const unknown = await claim();
    await pg.database.query('ANALYZE outbox_message');
    await insertDue(100);
    const known = await claim();
    for (const { keys, time } of [unknown, known]) {
      // The others are in flight.
      expect([...keys]).toEqual([null]);
      // About 0.1 s on an idle machine; were the set of busy keys read anew for each waiting row, it would be minutes.
      expect(time).toBeLessThan(3_000);
    }
  });

  async function claimedKeys(
    claim: (runner: QueryRunner) => Promise<{ orderingKey: string | null }[]>,
  ): Promise<(string | null)[]> {
    const claimed = await pg.withRunner(async (runner) => {
      await runner.startTransaction('READ COMMITTED');
      const rows = await claim(runner);
      await runner.commitTransaction();
      return rows;
    });
    return claimed.map(({ orderingKey }) => orderingKey);
  }

  /** Runs the statements of `work` under EXPLAIN (ANALYZE, BUFFERS), in a transaction that is taken back. */
  async function explain(work: (runner: QueryRunner) => Promise<unknown>): Promise<Explained> {
    return pg.withRunner(async (runner) => {
      await runner.startTransaction('READ COMMITTED');
      const plans: { Plan: PlanNode }[] = [];
      const explaining = new Proxy(runner, {
        get(target, name, receiver) {
          if (name !== 'query') return Reflect.get(target, name, receiver) as unknown;
          return async (sql: string, parameters?: unknown[]) => {
            const [row] = (await target.query(
              `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${sql}`,
              parameters,
            )) as {
              'QUERY PLAN': (typeof plans)[number][];
            }[];
            plans.push(...row!['QUERY PLAN']);
            return { records: [], affected: 0 };
          };
        },
      });
      await work(explaining);
      await runner.rollbackTransaction();
      return {
        blocks: plans.reduce(
          (sum, { Plan }) => sum + Plan['Shared Hit Blocks'] + Plan['Shared Read Blocks'],
          0,
        ),
        nodes: plans.flatMap(({ Plan }) => flatten(Plan)),
      };
    });
  }
});

function expectSmall({ blocks, nodes }: Explained, maxBlocks: number): void {
  const scans = nodes.filter((node) => node['Relation Name'] === 'outbox_message');
  expect(scans.length).toBeGreaterThan(0);
  expect(nodes.filter((node) => node['Node Type'] === 'Seq Scan')).toEqual([]);
  expect(Math.max(...scans.map((node) => node['Actual Rows']))).toBeLessThanOrEqual(1_000);
  expect(blocks).toBeLessThan(maxBlocks);
}

function flatten(node: PlanNode): PlanNode[] {
  return [node, ...(node.Plans ?? []).flatMap(flatten)];
}
