import { setTimeout as delay } from 'node:timers/promises';
import { DispatchSetup } from './dispatch-setup';

const LEASE = 900;
const WATCHED = 3_000;

/** C27: what an idle dispatcher does to the tables. */
describe('An idle dispatcher', () => {
  let setup: DispatchSetup;
  beforeAll(async () => {
    setup = await DispatchSetup.open();
    await setup.database.query(`
      CREATE TABLE lock_update (at timestamptz DEFAULT clock_timestamp());
      CREATE FUNCTION note_update() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN INSERT INTO lock_update DEFAULT VALUES; RETURN NULL; END $$;
      CREATE TRIGGER note_update AFTER UPDATE ON shedlock FOR EACH ROW EXECUTE FUNCTION note_update()`);
  });
  afterEach(() => setup.reset());
  afterAll(() => setup?.close());

  /** Where each row version is, who wrote it, and who has locked it since. */
  const versions = () =>
    setup.database.query(
      'SELECT ctid::text, xmin::text, xmax::text, message_id FROM outbox_message ORDER BY seq',
    );

  it.each(['leader', 'competing'] as const)(
    'C27, %s: writes nothing into the outbox, and the lock row once in a third of the lease',
    async (dispatch) => {
      await setup.database.query(`
        TRUNCATE lock_update;
        INSERT INTO outbox_message (message_id, exchange, routing_key, body, ordering_key, status, attempts, available_at)
        VALUES ('planned', 'e', 'r', '', NULL, 'scheduled', 0, now() + interval '1 hour'),
          ('waits for its retry', 'e', 'r', '', 'k', 'scheduled', 1, now() + interval '1 hour'),
          ('behind it', 'e', 'r', '', 'k', 'ready', 0, now()),
          ('dead', 'e', 'r', '', 'k', 'dead', 10, now()), ('sent', 'e', 'r', '', NULL, 'sent', 0, now())`);
      const before = await versions();
      const options = { dispatch, lease: LEASE, pollInterval: 30, publishTimeout: 400 };
      const own = { scheduler: new (setup.scheduler.constructor as new () => typeof setup.scheduler)() };
      const both = [setup.dispatcher(options), setup.dispatcher(options, own)];
      const started = performance.now();
      for (const each of both) each.start();
      await delay(WATCHED);
      expect(await versions()).toEqual(before);
      const [updates] = await setup.database.query<{ n: number }>(
        'SELECT count(*)::int AS n FROM lock_update',
      );
      const thirds = (performance.now() - started) / (LEASE / 3);
      expect(updates!.n).toBeLessThanOrEqual(dispatch === 'leader' ? Math.ceil(thirds) + 1 : 0);
      if (dispatch === 'leader') expect(updates!.n).toBeGreaterThan(2);
    },
  );
});
