import { setTimeout as sleep } from 'node:timers/promises';
import type { QueryRunner } from 'typeorm';
import { isRetryable } from '../../../lib/persistence/postgres/errors';
import { openPostgres, type Postgres } from './postgres';

/*
 * The trial of protocol P1, steps 1 to 6 with the policy `reject`: three copies of each message at once, handlers that
 * fail, connections that are killed, acks that get lost; in each isolation level every effect exists exactly once.
 */
const MESSAGES = 100;
const AT_ONCE = 8;
type Isolation = 'READ COMMITTED' | 'REPEATABLE READ' | 'SERIALIZABLE';

class HandlerFailed extends Error {}

describe.each<Isolation>(['READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE'])(
  'The inbox row under concurrency, %s (P1)',
  (isolation) => {
    let pg: Postgres;

    beforeAll(async () => {
      pg = await openPostgres({ poolSize: 30 });
      await pg.database.query('CREATE TABLE effect (message_id text NOT NULL, n serial)');
    });
    afterAll(() => pg.close());

    it('lets each message take effect exactly once', async () => {
      const counts = { failed: 0, killed: 0, duplicates: 0 };
      const ids = Array.from({ length: MESSAGES }, (_, i) => `m${i}`);
      for (let i = 0; i < MESSAGES; i += AT_ONCE) {
        await Promise.all(
          ids.slice(i, i + AT_ONCE).flatMap((id) => [1, 2, 3].map(() => untilAcked(id, counts))),
        );
      }
      const effects = await pg.database.query<{ n: number; ids: number }>(
        `SELECT n, count(*)::int AS ids FROM (SELECT count(*)::int AS n FROM effect GROUP BY message_id) AS e GROUP BY n`,
      );
      expect(effects).toEqual([{ n: 1, ids: MESSAGES }]);
      const rows = await pg.database.query(
        'SELECT status, count(*)::int AS n FROM inbox_message GROUP BY status',
      );
      expect(rows).toEqual([{ status: 'done', n: MESSAGES }]);
      expect(counts.failed).toBeGreaterThan(0);
      expect(counts.killed).toBeGreaterThan(0);
      expect(counts.duplicates).toBeGreaterThan(0);
    });

    type Counts = { failed: number; killed: number; duplicates: number };

    /** The broker: delivers until it is acked; what was rejected is replayed from the dead letters. */
    async function untilAcked(messageId: string, counts: Counts): Promise<void> {
      for (let delivery = 0; ; delivery++) {
        const key = { consumer: 'c', messageId };
        const redelivered = delivery > 0 && Math.random() < 0.5;
        if (
          redelivered &&
          (await own((runner) => pg.dialect.inbox.countRedelivery(runner, key))) === undefined
        ) {
          counts.duplicates++;
          return;
        }
        try {
          const isOurs = await process(key);
          if (!isOurs) counts.duplicates++;
          const isAckLost = Math.random() < 0.1;
          if (!isAckLost) return;
        } catch (error) {
          if (error instanceof HandlerFailed) {
            counts.failed++;
            await own((runner) => pg.dialect.inbox.recordFailure(runner, key, error.message));
          } else if (pg.dialect.isConnectionFault(error)) {
            counts.killed++;
          } else {
            throw error;
          }
        }
        await sleep(Math.random() * 5);
      }
    }

    const own = <T>(work: (runner: QueryRunner) => Promise<T>) => retried(() => pg.withRunner(work));

    /** The handler's transaction, begun anew after a serialization failure. */
    function process(key: { consumer: string; messageId: string }): Promise<boolean> {
      return retried(() =>
        pg.withRunner(async (runner) => {
          await runner.startTransaction(isolation);
          try {
            // Processes differ in what they know of kept messages.
            const isOurs = await pg.dialect.inbox.take(runner, key, Math.random() < 0.5);
            if (isOurs) await handle(runner, key.messageId);
            await runner.commitTransaction();
            return isOurs;
          } catch (error) {
            await runner.rollbackTransaction().catch(() => undefined);
            throw error;
          }
        }),
      );
    }

    async function handle(runner: QueryRunner, messageId: string): Promise<void> {
      await runner.query('INSERT INTO effect (message_id) VALUES ($1)', [messageId]);
      await sleep(Math.random() * 10);
      const fate = Math.random();
      if (fate < 0.2) throw new HandlerFailed('refused');
      if (fate < 0.3) {
        const [own] = (await runner.query('SELECT pg_backend_pid() AS pid')) as { pid: number }[];
        await pg.database.query('SELECT pg_terminate_backend($1)', [own!.pid]);
      }
    }
  },
);

async function retried<T>(work: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      if (!isRetryable(error) || attempt === 50) throw error;
      await sleep(Math.random() * 10);
    }
  }
}
