import { DataSource, type QueryRunner } from 'typeorm';
import { createDialect } from '../../../lib/persistence/dialects';
import { createTables } from '../../../lib/persistence/tables';
import { createTestDatabase, type TestDatabase } from '../../support/test-database';
import { waitFor } from '../../support/wait-for';

describe('taking many messages at once', () => {
  let database: TestDatabase;
  let dataSource: DataSource;
  beforeAll(async () => {
    database = await createTestDatabase({ prefix: 'take_many' });
    const tables = createTables();
    dataSource = new DataSource({
      type: 'postgres',
      url: database.url,
      entities: Object.values(tables),
      synchronize: true,
    });
    await dataSource.initialize();
    dialect = createDialect(dataSource, tables);
  });
  afterAll(async () => {
    await dataSource.destroy();
    await database.close();
  });
  beforeEach(() => database.query('DELETE FROM inbox_message'));

  let dialect: ReturnType<typeof createDialect>;
  const take = (runner: QueryRunner, ids: string[]) => dialect.inbox.takeMany(runner, 'consumer', ids);
  const inTransaction = async <T>(work: (runner: QueryRunner) => Promise<T>): Promise<T> => {
    const runner = dataSource.createQueryRunner();
    try {
      await runner.startTransaction();
      const result = await work(runner);
      await runner.commitTransaction();
      return result;
    } catch (error) {
      await runner.rollbackTransaction();
      throw error;
    } finally {
      await runner.release();
    }
  };

  it('takes what is new or only seen, and nothing that is settled or kept', async () => {
    await database.query(
      `INSERT INTO inbox_message (consumer, message_id, status, attempts) VALUES ('consumer', 'seen', 'seen', 3),
       ('consumer', 'open', 'open', 1), ('consumer', 'running', 'in_progress', 1), ('consumer', 'done', 'done', 1),
       ('consumer', 'dead', 'dead', 1), ('other', 'new', 'done', 1)`,
    );
    const ids = ['new', 'seen', 'open', 'running', 'done', 'dead'];
    expect(await inTransaction((runner) => take(runner, ids))).toEqual(new Set(['new', 'seen']));
    const rows = await database.query<{ message_id: string; status: string; attempts: number }>(
      "SELECT message_id, status, attempts FROM inbox_message WHERE consumer = 'consumer' ORDER BY message_id",
    );
    expect(rows.map((row) => `${row.message_id} ${row.status} ${row.attempts}`)).toEqual([
      'dead dead 1',
      'done done 1',
      'new done 1',
      'open open 1',
      'running in_progress 1',
      'seen done 3',
    ]);
  });

  it('copies in the list count once, of rows that are seen too', async () => {
    await database.query(
      "INSERT INTO inbox_message (consumer, message_id, status) VALUES ('consumer', 'b', 'seen')",
    );
    const taken = await inTransaction((runner) => take(runner, ['a', 'b', 'a', 'b', 'b']));
    expect(taken).toEqual(new Set(['a', 'b']));
  });

  it('ids are compared byte by byte', async () => {
    const ids = ['a', 'A', 'ä', 'a ', "a'"];
    expect(await inTransaction((runner) => take(runner, ids))).toEqual(new Set(ids));
  });

  it('lists that share messages in opposite order wait for each other and do not deadlock (40 rounds)', async () => {
    for (let round = 0; round < 40; round++) {
      const ids = Array.from({ length: 200 }, (_, n) => `${round}-${(n * 7919) % 200}`);
      const lists = [ids, [...ids].reverse(), [...ids.slice(100), ...ids.slice(0, 100)]];
      const taken = await Promise.all(
        lists.map((list) => inTransaction(async (runner) => (await take(runner, list)).size)),
      );
      expect(taken.sort((a, b) => a - b)).toEqual([0, 0, 200]);
    }
  });

  it('whoever waits takes them all when the first rolls back', async () => {
    const first = dataSource.createQueryRunner();
    await first.startTransaction();
    await take(first, ['x', 'y']);
    const second = inTransaction((runner) => take(runner, ['y', 'z', 'x']));
    await waitFor('the second to wait', async () => {
      const [waiting] = await database.query<{ count: string }>(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
      );
      return waiting?.count === '1';
    });
    await first.rollbackTransaction();
    await first.release();
    expect(await second).toEqual(new Set(['x', 'y', 'z']));
  });
});
