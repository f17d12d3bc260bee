import type { TestDatabase } from './test-database';

/** Notes each DELETE of a table: how many rows, whether ids beginning with `old-` were among them, and who sent it when. */
export class DeletionLog {
  private constructor(private readonly database: TestDatabase) {}

  static async of(database: TestDatabase, table: string): Promise<DeletionLog> {
    await database.query(`
      CREATE TABLE deletion (pid int, size int, old boolean, began timestamptz, ended timestamptz);
      CREATE FUNCTION note_deletion() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO deletion SELECT pg_backend_pid(), count(*), bool_or(message_id LIKE 'old-%'),
          transaction_timestamp(), clock_timestamp() FROM gone;
        RETURN NULL; END $$;
      CREATE TRIGGER note_deletion AFTER DELETE ON ${table} REFERENCING OLD TABLE AS gone
        FOR EACH STATEMENT EXECUTE FUNCTION note_deletion()`);
    return new DeletionLog(database);
  }

  /** Rows of the largest DELETE of old ones, and of all. */
  async sizes(): Promise<{ largest: number; total: number } | undefined> {
    const [row] = await this.database.query<{ largest: number; total: number }>(
      'SELECT max(size) AS largest, sum(size)::int AS total FROM deletion WHERE old',
    );
    return row;
  }

  /** A row for each two of different connections that ran at the same time. */
  overlapping(): Promise<object[]> {
    return this.database.query(
      `SELECT 1 FROM deletion AS a JOIN deletion AS b ON a.pid < b.pid AND a.old AND b.old
       WHERE a.began < b.ended AND b.began < a.ended`,
    );
  }
}
