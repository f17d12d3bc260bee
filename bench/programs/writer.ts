import { randomUUID } from 'node:crypto';
import { OutboxService } from 'nestjs-inbox-outbox';
import { DataSource, type EntityManager } from 'typeorm';
import { openApplication } from '../harness/application';
import { body } from '../harness/body';
import { serve } from '../harness/serve';
import { countStatements } from './counted-statements';

/** Publishing, without dispatching: what it costs the caller's transaction. */
const opened = openApplication({ outbox: { dispatch: 'off' } });

/** Parametrised, into the same table: what somebody would write who has the table and nothing else. */
const INSERT = `INSERT INTO outbox_message (message_id, exchange, routing_key, body, properties) VALUES ($1, $2, $3, $4, $5)`;

type Kind = 'nothing' | 'by hand' | 'publish';

interface Work {
  readonly kinds: readonly Kind[];
  readonly count: number;
}

interface Cost {
  milliseconds: number;
  statements: number;
}

serve({
  async ready(): Promise<void> {
    const dataSource = (await opened).get(DataSource);
    await dataSource.query('CREATE TABLE business (id bigserial PRIMARY KEY, text text)');
  },

  async empty(): Promise<void> {
    await (await opened).get(DataSource).query('TRUNCATE outbox_message, business');
  },

  /** One business insert in each transaction, and what its kind says. The kinds take turns, one transaction each. */
  async transactions({ kinds, count }: Work): Promise<Record<string, Cost>> {
    const app = await opened;
    const dataSource = app.get(DataSource);
    const outbox = app.get(OutboxService);
    const extra: Record<Kind, (manager: EntityManager, n: number) => Promise<unknown>> = {
      nothing: () => Promise.resolve(),
      'by hand': (manager, n) =>
        manager.query(INSERT, [
          randomUUID(),
          'claims',
          'claim.reported',
          JSON.stringify(body(n)),
          JSON.stringify({ contentType: 'application/json' }),
        ]),
      publish: (_manager, n) => outbox.publish('claims', 'claim.reported', body(n)),
    };
    const costs: Record<string, Cost> = {};
    for (let n = 0; n < count; n++) {
      for (let turn = 0; turn < kinds.length; turn++) {
        const kind = kinds[(n + turn) % kinds.length]!;
        const { milliseconds, statements } = await timed(async () => {
          await dataSource.transaction(async (manager) => {
            await manager.query('INSERT INTO business (text) VALUES ($1)', [`claim ${n}`]);
            await extra[kind](manager, n);
          });
        });
        const sum = (costs[kind] ??= { milliseconds: 0, statements: 0 });
        sum.milliseconds += milliseconds;
        sum.statements += statements;
      }
    }
    return costs;
  },

  /** `publishMany()` with 1,000 messages, in a transaction of its own each time. */
  async many({ count }: { count: number }): Promise<Cost> {
    const app = await opened;
    const messages = Array.from({ length: 1_000 }, (_, n) => ({
      exchange: 'claims',
      routingKey: 'claim.reported',
      payload: body(n),
    }));
    return timed(async () => {
      for (let done = 0; done < count; done += messages.length) {
        await app.get(DataSource).transaction(() => app.get(OutboxService).publishMany(messages));
      }
    });
  },
});

async function timed(work: () => Promise<void>): Promise<Cost> {
  const before = countStatements();
  const started = performance.now();
  await work();
  return { milliseconds: performance.now() - started, statements: countStatements() - before };
}
