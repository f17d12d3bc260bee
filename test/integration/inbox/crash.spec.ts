import { Client } from 'pg';
import { waitFor } from '../../support/wait-for';
import { InboxSetup } from './inbox-setup';

describe('G6: the ack comes after the commit, whoever crashes', () => {
  let setup: InboxSetup;
  beforeAll(async () => (setup = await InboxSetup.open()));
  afterEach(() => setup.stopApps());
  afterAll(() => setup.close());

  const boundaries = ['after take', 'inside the handler', 'before commit', 'after commit', 'before ack'];

  it.each(boundaries)('G6: SIGKILL %s: one effect in the end', async (boundary) => {
    const name = boundary.replaceAll(' ', '-');
    const queue = setup.broker.queue(name);
    const first = await setup.started('consumer-app', { queue }, { armed: [boundary] });
    const steps = ['effect', 'kill inside the handler'];
    await setup.broker.sendToQueue(queue, { steps }, { messageId: name });
    expect((await first.exited).signal).toBe('SIGKILL');
    const committed = boundary === 'after commit' || boundary === 'before ack';
    expect(await setup.effectCount(name)).toBe(committed ? 1 : 0);

    const second = await setup.started('consumer-app', { queue });
    await second.waitFor('ack');

    expect(await setup.effects(name)).toEqual({ [`Consumer.onMessage ${name}`]: 1 });
    expect(await setup.status(name)).toBe('done');
    expect(second.events('run')).toHaveLength(committed ? 0 : 1);
  });

  it('G6: while the COMMIT is under way nothing is acked', async () => {
    // A COMMIT that waits: a deferred trigger asks for a lock that the test holds.
    await setup.database.query(`
      CREATE TABLE slow_commit (id int);
      CREATE FUNCTION wait_for_test() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NULL; END $$;
      CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON slow_commit DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION wait_for_test()`);
    const queue = setup.broker.queue('slow-commit');
    const app = await setup.started('consumer-app', { queue });
    const holder = new Client({ connectionString: setup.database.url });
    await holder.connect();
    try {
      await holder.query('SELECT pg_advisory_lock(1)');
      const steps = ['effect', 'sql INSERT INTO slow_commit VALUES (1)'];
      await setup.broker.sendToQueue(queue, { steps }, { messageId: 'slow-commit' });
      await waitFor('the COMMIT to wait', async () => {
        const waiting = await setup.database.query(
          "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND query = 'COMMIT' AND wait_event_type = 'Lock'",
        );
        return waiting.length === 1;
      });
      await app.request('noop'); // whatever the process meant to do has been done
      expect(app.events('ack')).toEqual([]);
      await holder.query('SELECT pg_advisory_unlock(1)');
      await app.waitFor('ack');
      expect(await setup.effectCount('slow-commit')).toBe(1);
    } finally {
      await holder.end();
    }
  });
});
