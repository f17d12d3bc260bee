import { setTimeout as sleep } from 'node:timers/promises';
import { openPostgres, type Postgres } from './postgres';

/** What ShedLock itself sends to PostgreSQL (JDBC provider on the database's time, with its usual table). */
const NOW = `timezone('utc', CURRENT_TIMESTAMP)`;
const shedLock = {
  take: (name: string, by: string, atMost: number) => `
    INSERT INTO shedlock (name, lock_until, locked_at, locked_by)
    VALUES ('${name}', ${NOW} + interval '${atMost} ms', ${NOW}, '${by}')
    ON CONFLICT (name) DO UPDATE SET lock_until = ${NOW} + interval '${atMost} ms', locked_at = ${NOW}, locked_by = '${by}'
    WHERE shedlock.name = '${name}' AND shedlock.lock_until <= ${NOW} RETURNING name`,
  unlock: (name: string, by: string) => `
    UPDATE shedlock SET lock_until = ${NOW} WHERE name = '${name}' AND locked_by = '${by}' RETURNING name`,
};

describe('The lock statements', () => {
  let pg: Postgres;

  beforeAll(async () => {
    // The strictest default there can be: a lock statement must work in it all the same.
    pg = await openPostgres({
      extra: { options: '-c default_transaction_isolation=serializable -c TimeZone=America/New_York' },
    });
  });
  afterAll(() => pg.close());
  beforeEach(() => pg.database.query('TRUNCATE shedlock'));

  const take = (name: string, owner: string, atMost: number) =>
    pg.withRunner((runner) => pg.dialect.lock.take(runner, name, owner, atMost));
  const extend = (name: string, owner: string, fence: string, atMost: number) =>
    pg.withRunner((runner) => pg.dialect.lock.extend(runner, name, owner, fence, atMost));
  const release = (name: string, owner: string, fence: string, atLeast = 0) =>
    pg.withRunner((runner) => pg.dialect.lock.release(runner, name, owner, fence, atLeast));
  /** Lets time pass for a lock, without waiting for it. */
  const elapse = (name: string, milliseconds: number) =>
    pg.database.query(
      `UPDATE shedlock SET lock_until = lock_until - $2::int * interval '1 ms',
        locked_at = locked_at - $2::int * interval '1 ms' WHERE name = $1`,
      [name, milliseconds],
    );
  const sql = async (statement: string) => (await pg.database.query(statement)).length === 1;

  it('let one hold it, until it is released, and raise the fence with each take-over', async () => {
    const first = await take('l', 'a', 60_000);
    expect(first?.fence).toBe('1');
    expect(Math.abs(first!.lockedUntil.getTime() - Date.now() - 60_000)).toBeLessThan(5_000);
    expect(await take('l', 'b', 60_000)).toBeUndefined();
    expect(await take('other', 'b', 60_000)).toBeDefined();
    expect(await release('l', 'a', '1')).toBe(true);
    expect((await take('l', 'b', 60_000))?.fence).toBe('2');
  });

  it('give nothing to who is not the holder, by owner and by fence', async () => {
    await take('l', 'a', 60_000);
    expect(await extend('l', 'b', '1', 60_000)).toBeUndefined();
    expect(await extend('l', 'a', '2', 60_000)).toBeUndefined();
    expect(await release('l', 'b', '1')).toBe(false);
    expect(await release('l', 'a', '2')).toBe(false);
    expect(await extend('l', 'a', '1', 90_000)).toBeDefined();
  });

  it('leave an expired lock lost, and free', async () => {
    await take('l', 'a', 60_000);
    await elapse('l', 60_000);
    expect(await extend('l', 'a', '1', 60_000)).toBeUndefined();
    expect(await release('l', 'a', '1', 60_000)).toBe(false);
    expect((await take('l', 'b', 60_000))?.fence).toBe('2');
  });

  it('hold it for at least as long as asked', async () => {
    await take('l', 'a', 60_000);
    expect(await release('l', 'a', '1', 50_000)).toBe(true);
    expect(await take('l', 'b', 60_000)).toBeUndefined();
    await elapse('l', 50_000);
    expect(await take('l', 'b', 60_000)).toBeDefined();
  });

  it('insert a row again that was deleted by hand', async () => {
    await take('l', 'a', 60_000);
    await pg.database.query('DELETE FROM shedlock');
    expect(await extend('l', 'a', '1', 60_000)).toBeUndefined();
    expect((await take('l', 'b', 60_000))?.fence).toBe('1');
  });

  it('fail loudly for a name that does not fit', async () => {
    await expect(take('x'.repeat(300), 'a', 1_000)).rejects.toThrow(/too long/);
  });

  it('measure time when they run, not when a surrounding transaction began', async () => {
    await take('l', 'a', 200);
    await pg.withRunner(async (runner) => {
      await runner.startTransaction('READ COMMITTED');
      await runner.query('SELECT 1');
      await sleep(250);
      expect(await pg.dialect.lock.take(runner, 'l', 'b', 60_000)).toBeDefined();
      await runner.commitTransaction();
    });
  });

  it('never let two of 8 hold it at once', async () => {
    await pg.database.query('CREATE TABLE counter (n int); INSERT INTO counter VALUES (0)');
    let rounds = 0;
    await Promise.all(
      Array.from({ length: 8 }, async (_, worker) => {
        while (rounds < 200) {
          const lock = await take('fuzz', `w${worker}`, 20_000);
          if (!lock) {
            await sleep(Math.random() * 4);
            continue;
          }
          const [row] = await pg.database.query<{ n: number }>('SELECT n FROM counter');
          await sleep(1);
          await pg.database.query('UPDATE counter SET n = $1', [row!.n + 1]);
          rounds++;
          expect(await release('fuzz', `w${worker}`, lock.fence)).toBe(true);
        }
      }),
    );
    expect(await pg.database.query('SELECT n FROM counter')).toEqual([{ n: rounds }]);
    const [{ fence }] = (await pg.database.query('SELECT fence FROM shedlock')) as [{ fence: string }];
    expect(fence).toBe(String(rounds));
  });

  it("share a row with ShedLock's own statements, in both directions", async () => {
    expect(await sql(shedLock.take('l', 'java', 60_000))).toBe(true);
    expect(await take('l', 'node', 60_000)).toBeUndefined();
    expect(await sql(shedLock.unlock('l', 'java'))).toBe(true);

    const ours = await take('l', 'node', 60_000);
    expect(ours?.fence).toBe('1');
    expect(await sql(shedLock.take('l', 'java', 60_000))).toBe(false);
    expect(await sql(shedLock.unlock('l', 'java'))).toBe(false);
    await elapse('l', 60_000);

    // Taken over by Java, which leaves the fence as it is: the owner tells.
    expect(await sql(shedLock.take('l', 'java', 60_000))).toBe(true);
    expect(await extend('l', 'node', '1', 60_000)).toBeUndefined();
    expect(await release('l', 'node', '1')).toBe(false);
    expect(await sql(shedLock.unlock('l', 'java'))).toBe(true);
    expect((await take('l', 'node', 60_000))?.fence).toBe('2');
  });
});
