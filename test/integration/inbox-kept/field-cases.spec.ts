import { DataSource } from 'typeorm';
import { inboxOutboxEntities } from '../../../lib';
import { DeadLetterService } from '../../../lib/dead-letters/dead-letter.service';
import { createDialect } from '../../../lib/persistence/dialects';
import { inboxOutboxTables } from '../../../lib/persistence/registered-tables';
import { Transactions } from '../../../lib/transaction/transactions';
import { waitFor } from '../../support/wait-for';
import { InboxSetup } from '../inbox/inbox-setup';

const inbox = { backoff: { initialDelay: 100, factor: 1 }, pollInterval: 50, maxAttempts: 2 };

describe('kept messages in the field', () => {
  let setup: InboxSetup;
  let dataSource: DataSource;
  beforeAll(async () => {
    setup = await InboxSetup.open();
    const { url } = setup.database;
    dataSource = await new DataSource({
      type: 'postgres',
      url,
      entities: inboxOutboxEntities(),
    }).initialize();
  });
  afterEach(() => setup.stopApps());
  afterAll(async () => {
    await dataSource?.destroy();
    await setup.close();
  });

  it.each(['retry', 'deferred'] as const)(
    'C56 (inbox): a dead message that two operators replay at once is handled once, with new attempts (%s)',
    async (mode) => {
      const queue = setup.broker.queue(`replay-${mode}`);
      const idempotent = mode === 'retry' ? { onFailure: mode } : { processing: mode };
      const settings = { queue, inbox, idempotent: { ...idempotent, consumer: mode } };
      const both = await Promise.all([0, 1].map(() => setup.started('consumer-app', settings)));
      // Fails for as long as a table is not there.
      const steps = [
        'effect',
        `sql DO $$ BEGIN IF (SELECT count(*) FROM pg_class WHERE relname = 'open_${mode}') = 0 THEN
        RAISE EXCEPTION 'not yet'; END IF; END $$`,
      ];
      await setup.broker.sendToQueue(queue, { steps }, { messageId: `replay-${mode}` });
      const row = async () => (await setup.rows(`replay-${mode}`))[0];
      await waitFor('it to be dead', async () => (await row())?.status === 'dead');
      expect((await row())?.last_error).toContain('not yet');

      const services = [0, 1].map(
        () =>
          new DeadLetterService({
            dataSource,
            transactions: new Transactions(dataSource),
            statements: createDialect(dataSource, inboxOutboxTables()).deadLetters,
            notify: { outbox: () => undefined, inbox: () => undefined },
          }),
      );
      const which = { box: 'inbox', consumer: mode, messageId: `replay-${mode}` } as const;
      // It dies again, with attempts that began anew; then it can be handled.
      const runs = () => both.flatMap((app) => app.events('run')).length;
      expect(runs()).toBe(2);
      expect((await Promise.all(services.map((each) => each.replay(which)))).sort()).toEqual([0, 1]);
      await waitFor('the runs of the replay', () => runs() === 4);
      await waitFor('it to be dead again', async () => (await row())?.status === 'dead');
      await setup.database.query(`CREATE TABLE open_${mode} ()`);
      expect((await Promise.all(services.map((each) => each.replay(which)))).sort()).toEqual([0, 1]);
      await waitFor('it to be done', async () => (await row())?.status === 'done');
      expect(await setup.effectCount(`replay-${mode}`)).toBe(1);
      expect(runs()).toBe(5);
    },
  );

  it('C49 (inbox): two processes and the database in three time zones: a retry comes at its date, and only what is old is cleaned', async () => {
    const { name } = setup.database;
    await setup.database.query(`ALTER DATABASE ${name} SET TimeZone = 'America/New_York'`);
    const queue = setup.broker.queue('zones');
    await setup.database.query(
      `INSERT INTO inbox_message (consumer, message_id, status, processed_at) VALUES
         ('zone', 'young', 'done', now() - interval '6 days 23 hours'), ('zone', 'old', 'done', now() - interval '7 days 1 hour')`,
    );
    const settings = {
      queue,
      inbox: {
        ...inbox,
        maxAttempts: 5,
        backoff: { initialDelay: 1_500, factor: 1, jitter: 0 },
        cleanup: { interval: 50 },
      },
      idempotent: { consumer: 'zones' },
    };
    const apps = await Promise.all(
      ['Asia/Kolkata', 'America/Los_Angeles'].map((TZ) =>
        setup.started('consumer-app', settings, { env: { TZ } }),
      ),
    );
    for (let n = 0; n < 6; n++) {
      await setup.broker.sendToQueue(queue, { n, steps: ['effect', 'fail 1'] }, { messageId: `zones-${n}` });
    }
    const rows = async () => (await setup.rows()).filter(({ consumer }) => consumer === 'zones');
    await waitFor(
      'all to be done',
      async () => (await rows()).filter(({ status }) => status === 'done').length === 6,
      { timeout: 20_000 },
    );
    // Hours off would be at once, or never.
    const ages = await setup.database.query<{ age: number }>(
      `SELECT extract(epoch FROM processed_at - received_at)::float8 AS age FROM inbox_message WHERE consumer = 'zones'`,
    );
    for (const { age } of ages) expect(age).toBeGreaterThan(1.4);
    expect(apps.flatMap((app) => app.events('delivery'))).toHaveLength(6);
    await waitFor('the cleaner', async () => (await setup.rows('old')).length === 0);
    expect(await setup.rows('young')).toHaveLength(1);
  });

  it('G11: a row that was damaged by hand is dead, with the column in its error, and the others are handled', async () => {
    await setup.database.query(
      `INSERT INTO inbox_message (consumer, message_id, status, available_at, headers, properties, body) VALUES
         ('damaged', 'headers', 'open', now(), '{broken', NULL, '{}'), ('damaged', 'properties', 'open', now(), NULL, '[1]', '{}'),
         ('damaged', 'good', 'open', now(), NULL, NULL, '{"steps":["effect"]}')`,
    );
    const queue = setup.broker.queue('damaged');
    const idempotent = { processing: 'deferred' as const, consumer: 'damaged' };
    const app = await setup.started('consumer-app', { queue, inbox, idempotent });
    await waitFor('the good one', async () => (await setup.status('good')) === 'done');
    for (const column of ['headers', 'properties']) {
      await waitFor(`${column} to be dead`, async () => (await setup.status(column)) === 'dead');
      expect((await setup.rows(column))[0]?.last_error).toContain(`The column "${column}" cannot be read`);
    }
    await app.request('noop');
  });

  it('woken at once after a commit, however rarely the table is polled: what is stored, and what is due again', async () => {
    const queue = setup.broker.queue('woken');
    const settings = { queue, inbox: { ...inbox, pollInterval: 600_000 }, idempotent: { consumer: 'woken' } };
    await setup.started('consumer-app', {
      ...settings,
      idempotent: { ...settings.idempotent, processing: 'deferred' },
      variant: 'ordered',
    });
    // One that can begin at once, and one that has to be claimed.
    for (const [messageId, key] of [['woken'], ['woken-key', 'k']] as const) {
      await setup.broker.sendToQueue(queue, { key, steps: ['effect', 'fail 1'] }, { messageId });
      await waitFor(`${messageId} to be done`, async () => (await setup.status(messageId)) === 'done');
      expect(await setup.effectCount(messageId)).toBe(1);
    }
  });
});
