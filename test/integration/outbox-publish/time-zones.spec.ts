import { fork } from 'node:child_process';
import { join } from 'node:path';
import { openPostgres, type Postgres } from '../persistence/postgres';

interface Seen {
  offset: number;
  inAMinute: number;
  claimed: { body: string; expired: boolean }[];
  createdAgo: number;
  lockedFor: number;
  again: number;
}

const support = join(__dirname, '../../support/register-typescript.cjs');
const fixture = join(__dirname, 'fixtures/publish-in-time-zone.ts');

describe('C49: dates are instants, whatever the time zone', () => {
  let pg: Postgres;

  beforeAll(async () => {
    pg = await openPostgres();
  });
  afterAll(() => pg.close());

  describe.each(['UTC', 'America/New_York'])('of the database: %s', (databaseZone) => {
    it.each([
      ['UTC', 0],
      ['Asia/Kolkata', -330],
      ['America/New_York', 240],
    ])('and of the process: %s', async (processZone, offset) => {
      await pg.database.query(`
        TRUNCATE outbox_message; TRUNCATE shedlock;
        ALTER DATABASE ${pg.database.name} SET TimeZone = '${databaseZone}'`);
      const seen = await publishIn(processZone);
      expect(seen.offset).toBe(offset);
      expect(seen.claimed).toEqual([
        { body: '"now"', expired: false },
        { body: '"expired"', expired: true },
      ]);
      expect(seen.again).toBe(0);
      expect(Math.abs(seen.createdAgo)).toBeLessThan(5_000);
      expect(seen.lockedFor).toBeGreaterThan(5_000);
      expect(seen.lockedFor).toBeLessThan(11_000);
      const [planned, ...rescheduled] = await pg.database.query<{ at: Date; body: string }>(
        `SELECT available_at AS at, body FROM outbox_message WHERE status = 'scheduled' ORDER BY seq`,
      );
      expect(planned!.at.getTime()).toBe(seen.inAMinute);
      expect(rescheduled).toHaveLength(2);
      for (const { at, body } of rescheduled) expect(JSON.stringify(at)).toBe(body);

      await pg.database.query(`
        UPDATE outbox_message SET status = 'sent',
          settled_at = now() - CASE body WHEN '"now"' THEN interval '2 hours' ELSE interval '30 minutes' END`);
      const deleted = await pg.withRunner((runner) => pg.dialect.outbox.deleteSent(runner, 3_600_000, 10));
      expect(deleted).toBe(1);
    });
  });

  function publishIn(zone: string): Promise<Seen> {
    return new Promise((resolve, reject) => {
      const child = fork(fixture, [], {
        execArgv: ['-r', support],
        env: {
          ...process.env,
          NODE_OPTIONS: '',
          JEST_WORKER_ID: undefined,
          TZ: zone,
          DATABASE_URL: pg.database.url,
        },
      });
      child.once('message', (seen) => resolve(seen as Seen));
      child.once('error', reject);
      child.once('exit', (code) =>
        reject(new Error(`The process ended with ${code} before it had told anything`)),
      );
    });
  }
});
