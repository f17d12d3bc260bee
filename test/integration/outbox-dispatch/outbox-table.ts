import { randomUUID } from 'node:crypto';
import type { LoggerService } from '@nestjs/common';
import { DataSource } from 'typeorm';
import type { Dialect } from '../../../lib/persistence/dialect';
import type { OutboxInsert } from '../../../lib/persistence/outbox-statements';
import { createPostgresDialect } from '../../../lib/persistence/postgres/postgres-dialect';
import { createTables } from '../../../lib/persistence/tables';

export interface OutboxTable {
  readonly dataSource: DataSource;
  readonly dialect: Dialect;
  createTables(): Promise<void>;
  /** Commits messages in one transaction and returns their ids. */
  publish(...messages: PublishedMessage[]): Promise<string[]>;
  close(): Promise<void>;
}

export type PublishedMessage = Pick<OutboxInsert, 'exchange' | 'routingKey'> & Partial<OutboxInsert>;

/** The outbox table of a database, as one process sees it. */
export async function openOutboxTable(url: string, poolSize = 10): Promise<OutboxTable> {
  const tables = createTables();
  const dataSource = new DataSource({
    type: 'postgres',
    url,
    entities: [tables.outbox, tables.inbox, tables.lock],
    poolSize,
    extra: { application_name: 'outbox-test' },
    poolErrorHandler: () => undefined,
    logging: false,
  });
  await dataSource.initialize();
  const dialect = createPostgresDialect(dataSource, tables);
  return {
    dataSource,
    dialect,
    async createTables() {
      for (const sql of dialect.createTablesSql()) await dataSource.query(sql);
    },
    publish: (...messages) =>
      dataSource.transaction(({ queryRunner }) =>
        dialect.outbox.insert(queryRunner!, messages.map(complete)),
      ),
    close: () => dataSource.destroy(),
  };
}

/** A message with nothing but what is given. */
export function complete(message: PublishedMessage): OutboxInsert {
  return {
    messageId: randomUUID(),
    body: '{}',
    bodyEncoding: 'utf8',
    headers: null,
    properties: null,
    orderingKey: null,
    deduplicationKey: null,
    ...message,
  };
}

/** A logger that keeps what it is told. */
export class RecordingLogger implements LoggerService {
  readonly lines: string[] = [];
  log = (message: unknown) => void this.lines.push(`log ${String(message)}`);
  warn = (message: unknown) => void this.lines.push(`warn ${String(message)}`);
  error = (message: unknown) => void this.lines.push(`error ${String(message)}`);
  debug = () => undefined;
  count(pattern: RegExp): number {
    return this.lines.filter((line) => pattern.test(line)).length;
  }
}
