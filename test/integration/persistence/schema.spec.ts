import { randomUUID } from 'node:crypto';
import { Client } from 'pg';
import { DataSource, DefaultNamingStrategy } from 'typeorm';
import { createDialect } from '../../../lib/persistence/dialects';
import {
  CreateInboxOutboxTables1764547200000,
  createInboxOutboxMigration,
} from '../../../lib/persistence/migration';
import { createTables, type TableOptions } from '../../../lib/persistence/tables';
import { verifySchema } from '../../../lib/persistence/verify-schema';
import { createTestDatabase, type TestDatabase } from '../../support/test-database';
import { printPostgresSql } from '../../unit/persistence/print-sql';
import { outboxRow } from './messages';
import { inTransaction } from './postgres';

/** As strict as the field has it: it changes even names that were given explicitly. */
class UpperFirstNamingStrategy extends DefaultNamingStrategy {
  override columnName(property: string, given: string | undefined, prefixes: string[]): string {
    const name = super.columnName(property, given as string, prefixes);
    return name.charAt(0).toUpperCase() + name.slice(1);
  }
  override tableName(target: string, given: string | undefined): string {
    return given ?? target.toLowerCase();
  }
}

describe('The tables in the database', () => {
  let database: TestDatabase;
  let dataSource: DataSource | undefined;

  beforeEach(async () => {
    database = await createTestDatabase();
  });
  afterEach(async () => {
    if (dataSource?.isInitialized) await dataSource.destroy();
    await database.close();
  });

  async function connect(
    options: Partial<Extract<DataSource['options'], { type: 'postgres' }>> = {},
    names: TableOptions = {},
  ) {
    const tables = createTables(names);
    dataSource = new DataSource({
      type: 'postgres',
      url: database.url,
      entities: [tables.outbox, tables.inbox, tables.lock],
      ...options,
    });
    await dataSource.initialize();
    return { dataSource, tables, dialect: createDialect(dataSource, tables) };
  }

  const differences = async ({ driver }: DataSource) =>
    (await driver.createSchemaBuilder().log()).upQueries.map(({ query }) => query);

  it('C57 (a): are what the schema builder wants, after synchronize and after a second one', async () => {
    const { dataSource } = await connect({ synchronize: true });
    expect(await differences(dataSource)).toEqual([]);
    await dataSource.synchronize();
    expect(await differences(dataSource)).toEqual([]);
  });

  it('C57 (a): are what the schema builder wants, after the migration, which can be undone and run again', async () => {
    const { dataSource } = await connect({ migrations: [CreateInboxOutboxTables1764547200000] });
    await dataSource.runMigrations();
    expect(await differences(dataSource)).toEqual([]);
    await dataSource.undoLastMigration();
    await dataSource.runMigrations();
    await dataSource.synchronize();
    expect(await differences(dataSource)).toEqual([]);
  });

  it('are the same from the migration, from synchronize and from the printed SQL', async () => {
    const { dataSource } = await connect({ synchronize: true });
    const synchronized = await catalog(database.url);
    await dataSource.destroy();

    const migrated = await createTestDatabase();
    const printed = await createTestDatabase();
    try {
      // A data source of migrations need not know the entities.
      const migrations = await new DataSource({
        type: 'postgres',
        url: migrated.url,
        migrations: [createInboxOutboxMigration()],
      }).initialize();
      await migrations.runMigrations();
      await migrations.destroy();
      await migrated.query('DROP TABLE migrations');
      await printed.query(await printPostgresSql());
      expect(await catalog(migrated.url)).toEqual(synchronized);
      expect(await catalog(printed.url)).toEqual(synchronized);
      // A second run fails and changes nothing.
      await expect(printed.query(await printPostgresSql())).rejects.toThrow(/already exists/);
    } finally {
      await migrated.close();
      await printed.close();
    }
  });

  it("take over ShedLock's own table and add the fence to it", async () => {
    await database.query(`
      CREATE TABLE shedlock (name VARCHAR(64) NOT NULL, lock_until TIMESTAMP NOT NULL, locked_at TIMESTAMP NOT NULL,
        locked_by VARCHAR(255) NOT NULL, PRIMARY KEY (name));
      INSERT INTO shedlock VALUES ('job', '2000-01-01', '2000-01-01', 'java')`);
    const { dataSource } = await connect({ migrations: [createInboxOutboxMigration()] });
    await dataSource.runMigrations();
    expect(await database.query('SELECT name, locked_by, fence FROM shedlock')).toEqual([
      { name: 'job', locked_by: 'java', fence: '0' },
    ]);
    expect(await differences(dataSource)).toEqual([]);
  });

  it('C57 (b): work under any names: strategy, prefix, schema, quoting, reserved words', async () => {
    await database.query('CREATE SCHEMA "Sales-Ops"');
    const names = { schema: 'Sales-Ops', outboxTable: 'order', inboxTable: 'My Inbox', lockTable: 'Lock' };
    const { dataSource, dialect } = await connect(
      {
        namingStrategy: new UpperFirstNamingStrategy(),
        entityPrefix: 'app_',
        migrations: [createInboxOutboxMigration(names)],
      },
      names,
    );
    await dataSource.runMigrations();
    await database.query('DROP TABLE migrations');
    expect(await differences(dataSource)).toEqual([]);

    const runner = dataSource.createQueryRunner();
    const { outbox, inbox, lock } = dialect;
    for (const columns of (await dialect.existingColumns(runner)).values())
      expect(columns.size).toBeGreaterThan(4);
    await outbox.insert(runner, [
      outboxRow({ orderingKey: 'k' }),
      outboxRow({ orderingKey: 'k', deduplicationKey: 'd' }),
      outboxRow({ delay: 60_000 }),
    ]);
    expect(await outbox.anythingDue(runner)).toBe(true);
    const token = randomUUID();
    const claimed = await inTransaction(runner, () =>
      outbox.claim(runner, { token, lease: 1_000, limit: 10 }),
    );
    expect(claimed).toHaveLength(2);
    const seqs = claimed.map(({ seq }) => seq);
    expect(await outbox.renew(runner, token, 1_000, seqs)).toBe(2);
    const [first, second] = seqs;
    const failed = [{ seq: first!, error: 'x', next: 'dead' as const }];
    expect(
      await outbox.settle(runner, { token, sent: [second!], failed, released: [], keepSent: true }),
    ).toEqual({ settled: 2, dead: [first] });
    expect(await outbox.deleteSent(runner, 0, 10)).toBe(0);

    const key = { consumer: 'c', messageId: 'm' };
    expect(await inbox.countRedelivery(runner, key)).toBe(1);
    await inbox.recordFailure(runner, key, 'x');
    expect(await inbox.take(runner, key)).toBe(true);
    expect(await inbox.take(runner, key)).toBe(false);
    const kept = {
      ...key,
      exchange: '',
      routingKey: '',
      redelivered: false,
      body: Buffer.of(0),
      headers: null,
      properties: null,
      orderingKey: 'k',
    };
    expect(await inbox.bury(runner, kept, 'x')).toBe(false);
    expect(await inbox.bury(runner, { ...kept, messageId: 'n' }, 'x')).toBe(true);
    expect(await inbox.keep(runner, kept, { attempts: 1, error: 'x', delay: 0 })).toBe(false);
    expect(await inbox.deleteDone(runner, 0, 10)).toBe(1);
    expect(await inbox.store(runner, [kept])).toMatchObject([key]);
    expect(await inbox.isKeyOpen(runner, 'c', 'k')).toBe(true);
    expect(await inbox.anyKept(runner, ['c'])).toEqual({ due: true, kept: true });
    expect(await inbox.backlog(runner, 10)).toBe(1);
    expect(await inbox.waitingConsumers(runner, ['other'], 0)).toEqual(['c']);
    const claim = randomUUID();
    const request = { token: claim, lease: 0, limit: 1, consumers: ['c'] };
    expect(await inbox.claimKept(runner, request)).toMatchObject([{ messageId: 'm', suspect: false }]);
    expect(await inbox.renewKept(runner, claim, 0, [key])).toBe(1);
    expect(await inbox.countSuspect(runner, key, claim)).toBe(1);
    expect(await inbox.releaseKept(runner, key, claim, { delay: 0, suspect: true })).toBe(true);
    expect(await inbox.claimKept(runner, request)).toMatchObject([{ messageId: 'm', suspect: true }]);
    expect(await inbox.failKept(runner, { key, token: claim, attempts: 2, error: 'x', next: 0 })).toBe(true);
    expect(await inbox.claimKept(runner, request)).toMatchObject([{ attempts: 2, suspect: false }]);
    expect(await inbox.takeKept(runner, key, claim)).toBe(true);

    const taken = await lock.take(runner, 'l', 'me', 1_000);
    expect(await lock.extend(runner, 'l', 'me', taken!.fence, 1_000)).toBeDefined();
    expect(await lock.release(runner, 'l', 'me', taken!.fence, 0)).toBe(true);
    await runner.release();

    const outside = await database.query(
      `SELECT 1 FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'S', 'i')`,
    );
    expect(outside).toEqual([]);
  });

  it('are told to be missing, table by table and column by column', async () => {
    const { dataSource, dialect } = await connect();
    const runner = dataSource.createQueryRunner();
    const sizes = async () =>
      [...(await dialect.existingColumns(runner))].map(([table, columns]) => [table, columns.size]);
    expect(await sizes()).toEqual([
      ['outbox', 0],
      ['inbox', 0],
      ['lock', 0],
    ]);
    await dataSource.synchronize();
    await database.query('ALTER TABLE inbox_message DROP COLUMN reply');
    const columns = (table: string) =>
      dataSource.entityMetadatas.find(({ tableName }) => tableName === table)?.columns.length ?? NaN;
    expect(await sizes()).toEqual([
      ['outbox', columns('outbox_message')],
      ['inbox', columns('inbox_message') - 1],
      ['lock', columns('shedlock')],
    ]);
    expect(await dialect.serverVersion(runner)).toMatchObject({ supported: true });
    await runner.release();
  });

  it('are refused when the inbox is partitioned: rows of two partitions may have the same place', async () => {
    const { dataSource, tables, dialect } = await connect();
    await dataSource.synchronize();
    await expect(verifySchema(dataSource, tables, dialect)).resolves.toBeUndefined();
    await database.query('ALTER TABLE inbox_message RENAME TO old');
    await database.query(
      'CREATE TABLE inbox_message (LIKE old INCLUDING DEFAULTS) PARTITION BY HASH (message_id)',
    );
    await expect(verifySchema(dataSource, tables, dialect)).rejects.toThrow('"inbox_message" is partitioned');
  });
});

/** Columns and indexes as the server prints them, without the names that TypeORM gives to primary keys. */
async function catalog(url: string): Promise<unknown> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    const columns = await client.query(`
      SELECT table_name, column_name, data_type, character_maximum_length, collation_name, is_nullable,
        regexp_replace(column_default, '''(\\d+)''::(integer|bigint)', '\\1') AS column_default
      FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1, 2`);
    const indexes = await client.query(`
      SELECT regexp_replace(indexdef, 'INDEX "?(\\w+_pkey|PK_\\w+)"? ', 'INDEX pk ') AS definition
      FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1`);
    return [columns.rows, indexes.rows];
  } finally {
    await client.end();
  }
}
