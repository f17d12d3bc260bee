import { RabbitSubscribe } from '@golevelup/nestjs-rabbitmq';
import { Injectable } from '@nestjs/common';
import { Idempotent } from 'nestjs-inbox-outbox';
import { DataSource } from 'typeorm';
import { openApplication } from '../harness/application';
import { serve } from '../harness/serve';

/**
 * One consumer on QUEUE, with one insert for each message. KIND says what is around it:
 * - `transaction`: a transaction and nothing else: no protection from duplicates;
 * - `by hand`: the same, and the take statement of the inbox as somebody would write it;
 * - `inline`, `deferred`: `@Idempotent()`;
 * - `batch`: `@Idempotent()` on a handler that takes up to 100 at once and writes them with one insert.
 */
const { KIND = '', QUEUE = '', PREFETCH = '50', DATABASE } = process.env;

/** As the module's own, with the table's and columns' names spelt out. */
const TAKE = `INSERT INTO inbox_by_hand AS i (consumer, message_id, status, attempts, processed_at)
  VALUES ($1, $2, 'done', 1, clock_timestamp())
  ON CONFLICT (consumer, message_id) DO UPDATE SET status = 'done', processed_at = clock_timestamp()
  WHERE i.status = 'seen' RETURNING attempts`;

const BATCH = 100;

const EFFECT = 'INSERT INTO effect (message_id, sent_at) VALUES ($1, $2)';

const EFFECTS = `INSERT INTO effect (message_id, sent_at) SELECT * FROM unnest($1::text[], $2::float8[])`;

interface Content {
  readonly id: string;
  /** `process.hrtime` of the sender in ms: one clock for all processes of a machine. */
  readonly sentAt: number;
}

interface Raw {
  readonly properties: { readonly messageId: string };
}

const now = (): number => Number(process.hrtime.bigint()) / 1e6;

/** Counts what was handled, with the time from sending to the end of the handler. */
class Progress {
  private first = 0;
  private last = 0;
  private waits: number[] = [];
  private expected = Infinity;
  private done = (): void => undefined;

  note({ sentAt }: Content): void {
    this.last = now();
    this.first ||= this.last;
    this.waits.push(this.last - sentAt);
    if (this.waits.length === this.expected) this.done();
  }

  async of(count: number): Promise<{ milliseconds: number; waits: number[] }> {
    this.first = 0;
    this.waits = [];
    this.expected = count;
    await new Promise<void>((resolve) => (this.done = resolve));
    return { milliseconds: this.last - this.first, waits: this.waits };
  }
}

const progress = new Progress();
const queue = {
  queue: QUEUE,
  createQueueIfNotExists: false,
  queueOptions: { channel: 'bench' },
};

@Injectable()
class UnprotectedConsumer {
  constructor(private readonly dataSource: DataSource) {}

  @RabbitSubscribe(queue)
  async handle(content: Content, raw: Raw): Promise<void> {
    await this.dataSource.transaction(async (manager) => {
      if (KIND === 'by hand') {
        const taken = await manager.query<unknown[]>(TAKE, ['Consumer.handle', raw.properties.messageId]);
        if (taken.length === 0) return;
      }
      await manager.query(EFFECT, [content.id, content.sentAt]);
    });
    progress.note(content);
  }
}

@Injectable()
class IdempotentConsumer {
  constructor(private readonly dataSource: DataSource) {}

  @RabbitSubscribe(queue)
  @Idempotent(KIND === 'deferred' ? { processing: 'deferred' } : {})
  async handle(content: Content): Promise<void> {
    await this.dataSource.query(EFFECT, [content.id, content.sentAt]);
    progress.note(content);
  }
}

@Injectable()
class BatchConsumer {
  constructor(private readonly dataSource: DataSource) {}

  @RabbitSubscribe({ ...queue, batchOptions: { size: BATCH, timeout: 200 } })
  @Idempotent()
  async handle(contents: Content[]): Promise<void> {
    const columns = [contents.map(({ id }) => id), contents.map(({ sentAt }) => sentAt)];
    await this.dataSource.query(EFFECTS, columns);
    for (const content of contents) progress.note(content);
  }
}

const isIdempotent = KIND !== 'transaction' && KIND !== 'by hand';
const protectedConsumer = KIND === 'batch' ? BatchConsumer : IdempotentConsumer;

/** The tables come first: the consumer starts with the application. */
async function open() {
  const tables = new DataSource({ type: 'postgres', url: DATABASE });
  await tables.initialize();
  await tables.query('CREATE TABLE effect (id bigserial PRIMARY KEY, message_id text, sent_at float8)');
  await tables.query(
    `CREATE TABLE inbox_by_hand (consumer varchar(255) COLLATE "C", message_id varchar(255) COLLATE "C",
      status varchar(16), attempts int, received_at timestamptz DEFAULT clock_timestamp(), processed_at timestamptz,
      PRIMARY KEY (consumer, message_id))`,
  );
  await tables.query(`CREATE INDEX ON inbox_by_hand (processed_at) WHERE status = 'done'`);
  await tables.destroy();
  return openApplication({
    ...(isIdempotent && { outbox: { dispatch: 'off' } }),
    providers: [isIdempotent ? protectedConsumer : UnprotectedConsumer],
    channels: { bench: { prefetchCount: Number(PREFETCH), default: true } },
    poolSize: 12,
  });
}

const opened = open();

serve({
  async ready(): Promise<void> {
    await opened;
  },

  /** Resolves when this many were handled. Milliseconds from the first to the last, and of each from sending to handled. */
  handled: ({ count }: { count: number }) => progress.of(count),

  /** Effects in the table, and then none. */
  async takeEffects(): Promise<{ total: number; distinct: number }> {
    const dataSource = (await opened).get(DataSource);
    const [row] = await dataSource.query<{ total: number; distinct: number }[]>(
      'SELECT count(*)::int AS total, count(DISTINCT message_id)::int AS distinct FROM effect',
    );
    await dataSource.query('TRUNCATE effect');
    return row!;
  },
});
