import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { QueryRunner } from 'typeorm';
import type { ClaimedMessage } from '../../../lib/persistence/outbox-statements';
import { isRetryable } from '../../../lib/persistence/postgres/errors';
import { outboxRow } from './messages';
import { inTransaction, openPostgres, type Postgres } from './postgres';

/*
 * The trial of protocol P3: four claimers, a writer, failures and claimers that freeze beyond their lease. A claimer
 * "sends" by noting the message in one shared record.
 */
const ROWS = 2_000;
const KEYS = 25;
const WRITES = 100;
const LEASE = 2_000;
/** Nothing is sent later than this after the claim was begun. */
const DEADLINE = 600;

interface Outcome {
  sent: number;
  duplicates: number;
  violations: number;
  failures: number;
  frozen: number;
}

/** What the broker would have seen. */
class Broker {
  readonly outcome: Outcome = { sent: 0, duplicates: 0, violations: 0, failures: 0, frozen: 0 };
  private readonly seen = new Set<string>();
  private readonly last = new Map<string, bigint>();

  accept({ seq, orderingKey }: ClaimedMessage): void {
    this.outcome.sent++;
    if (this.seen.has(seq)) this.outcome.duplicates++;
    this.seen.add(seq);
    if (orderingKey === null) return;
    const before = this.last.get(orderingKey) ?? 0n;
    if (before > BigInt(seq)) this.outcome.violations++;
    else this.last.set(orderingKey, BigInt(seq));
  }
}

describe('Claims of several dispatchers at once (P3)', () => {
  let pg: Postgres;

  beforeAll(async () => {
    pg = await openPostgres();
  });
  afterAll(() => pg.close());
  beforeEach(() => fill());

  async function fill(): Promise<void> {
    await pg.database.query('TRUNCATE outbox_message');
    await pg.database.query(`
      INSERT INTO outbox_message (message_id, exchange, routing_key, body, ordering_key)
      SELECT 'old-' || g, 'e', 'r', '{}', CASE WHEN g % 10 = 0 THEN NULL ELSE 'k' || g % ${KEYS} END
      FROM generate_series(1, ${ROWS}) AS g`);
    await pg.database.query('ANALYZE outbox_message');
  }

  it('never send two of a key out of order and nothing twice, with failures and frozen claimers', async () => {
    const outcome = await drain();
    expect(outcome).toMatchObject({ sent: ROWS + WRITES, violations: 0, duplicates: 0 });
    expect(outcome.failures).toBeGreaterThan(0);
    expect(outcome.frozen).toBeGreaterThan(0);
  });

  it('G8: keep the order when claims are slow, and what they have seen is long past', async () => {
    expect(await drain(slow, 6)).toMatchObject({ sent: ROWS + WRITES, violations: 0, duplicates: 0 });
  });

  // Two safeguards, each of which is enough: one claim at a time, and a second look at what was locked.
  it('keep the order by the second look alone, should the mutex ever fail', async () => {
    expect(await drain(without('mutex'))).toMatchObject({
      sent: ROWS + WRITES,
      violations: 0,
      duplicates: 0,
    });
  });

  it('keep the order by the mutex alone', async () => {
    expect(await drain(without('second look'))).toMatchObject({
      sent: ROWS + WRITES,
      violations: 0,
      duplicates: 0,
    });
  });

  it('break it without both: the trial can fail', async () => {
    let broken = 0;
    for (let round = 0; round < 8 && broken === 0; round++) {
      await fill();
      const { violations, duplicates } = await drain(without('mutex', 'second look'), 8);
      broken = violations + duplicates;
    }
    expect(broken).toBeGreaterThan(0);
  });

  async function drain(through = (runner: QueryRunner) => runner, claimers = 4): Promise<Outcome> {
    const broker = new Broker();
    let writing = true;
    const writer = write().finally(() => (writing = false));
    const isDone = async () =>
      !writing && (await pg.database.query('SELECT 1 FROM outbox_message LIMIT 1')).length === 0;
    await Promise.all(
      Array.from({ length: claimers }, (_, number) =>
        pg.withRunner((runner) => claimer(runner, through(runner), number, broker, isDone)),
      ),
    );
    await writer;
    return broker.outcome;
  }

  async function claimer(
    runner: QueryRunner,
    claiming: QueryRunner,
    number: number,
    broker: Broker,
    isDone: () => Promise<boolean>,
  ): Promise<void> {
    const { outbox } = pg.dialect;
    for (let claims = 0; ;) {
      const token = randomUUID();
      const deadline = performance.now() + DEADLINE;
      const claimed = await inOwnTransaction(runner, () =>
        outbox.claim(claiming, { token, lease: LEASE, limit: 60 }),
      );
      if (claimed.length === 0) {
        if (await isDone()) return;
        await sleep(3);
        continue;
      }
      if (++claims % 25 === 5 + number) {
        broker.outcome.frozen++;
        await sleep(LEASE + 100);
      }
      const sent: string[] = [];
      const failed: string[] = [];
      const released: string[] = [];
      const stopped = new Set<string>();
      for (const message of claimed) {
        const { seq, orderingKey } = message;
        if (performance.now() > deadline || (orderingKey !== null && stopped.has(orderingKey))) {
          released.push(seq);
        } else if (Math.random() < 0.03) {
          failed.push(seq);
          broker.outcome.failures++;
          if (orderingKey !== null) stopped.add(orderingKey);
        } else {
          broker.accept(message);
          sent.push(seq);
          if (Math.random() < 0.05) await sleep(1);
        }
      }
      await inOwnTransaction(runner, () =>
        outbox.settle(runner, {
          token,
          sent,
          released,
          failed: failed.map((seq) => ({ seq, error: 'refused', next: 20 })),
          keepSent: false,
        }),
      );
    }
  }

  async function write(): Promise<void> {
    await pg.withRunner(async (runner) => {
      for (let i = 0; i < WRITES; i++) {
        await inTransaction(runner, async () => {
          await pg.dialect.outbox.insert(runner, [outboxRow({ orderingKey: `k${i % KEYS}` })]);
          await sleep(Math.random() * 3);
        });
      }
    });
  }
});

/**
 * Run again after a deadlock, as the dispatcher does: a settlement that comes after its lease can meet that of the next
 * holder.
 */
async function inOwnTransaction<T>(runner: QueryRunner, work: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await inTransaction(runner, work);
    } catch (error) {
      if (!isRetryable(error)) throw error;
    }
  }
}

/** A runner whose claims take a nap between the look at the table and the locks. */
function slow(runner: QueryRunner): QueryRunner {
  return new Proxy(runner, {
    get(target, name, receiver) {
      if (name !== 'query') return Reflect.get(target, name, receiver) as unknown;
      return (sql: string, ...rest: [unknown[], true]) => {
        const slower = sql.replace(
          'ARRAY(SELECT seq FROM pick)',
          'ARRAY(SELECT seq FROM pick CROSS JOIN (SELECT pg_sleep(0.015)) AS nap)',
        );
        if (sql.includes('FOR UPDATE OF o') && slower === sql)
          throw new Error('The claim has changed; adapt this test');
        return target.query(slower, ...rest);
      };
    },
  });
}

const SECOND_LOOK = / AND \(o\."claimed_until" IS NULL OR [^)]*\(\)\)(?=\s+FOR UPDATE)/;

/** A runner that leaves safeguards out of the claim. */
function without(...safeguards: ('mutex' | 'second look')[]) {
  return (runner: QueryRunner): QueryRunner =>
    new Proxy(runner, {
      get(target, name, receiver) {
        if (name !== 'query') return Reflect.get(target, name, receiver) as unknown;
        return (sql: string, ...rest: [unknown[], true]) => {
          if (sql.includes('pg_advisory_xact_lock') && safeguards.includes('mutex'))
            return Promise.resolve([]);
          if (!sql.includes('FOR UPDATE OF o') || !safeguards.includes('second look'))
            return target.query(sql, ...rest);
          if (!SECOND_LOOK.test(sql)) throw new Error('The claim has changed; adapt this test');
          return target.query(sql.replace(SECOND_LOOK, ''), ...rest);
        };
      },
    });
}
