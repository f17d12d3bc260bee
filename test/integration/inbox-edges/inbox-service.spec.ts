import {
  HandlerTimeoutError,
  inboxContext,
  InvalidOptionError,
  IsolationLevelRefusedError,
  MessageIdError,
  ShuttingDownError,
} from '../../../lib';
import { createTestDatabase, type TestDatabase } from '../../support/test-database';
import { waitFor } from '../../support/wait-for';
import { startServiceApp, type ServiceApp } from './service-app';

describe('InboxService', () => {
  let database: TestDatabase;
  let service: ServiceApp;
  beforeAll(async () => {
    database = await createTestDatabase({ prefix: 'service' });
    service = await startServiceApp(database);
    await database.query('CREATE TABLE effect (message_id text)');
  });
  afterAll(async () => {
    await service.app.close();
    await database.close();
  });

  const effect = (messageId: string) =>
    service.dataSource.query('INSERT INTO effect VALUES ($1)', [messageId]);
  const effects = async (messageId: string) =>
    (await database.query('SELECT 1 FROM effect WHERE message_id = $1', [messageId])).length;
  const row = async (messageId: string) =>
    (
      await database.query<{ status: string; last_error: string | null }>(
        'SELECT status, last_error FROM inbox_message WHERE message_id = $1',
        [messageId],
      )
    )[0];
  const fail = () => Promise.reject(new Error('the work has failed'));

  it('runs the work once, and says of a duplicate that it is one', async () => {
    const work = async () => {
      await effect('once');
      return 'answer';
    };
    await expect(service.inbox.process('webhook', 'once', work)).resolves.toEqual({
      duplicate: false,
      value: 'answer',
    });
    await expect(service.inbox.process('webhook', 'once', work)).resolves.toEqual({ duplicate: true });
    expect(await effects('once')).toBe(1);
    expect(await row('once')).toMatchObject({ status: 'done' });
  });

  it('G5: ten copies at once have one effect; those that wait are told that they are duplicates', async () => {
    let open = () => undefined as void;
    const gate = new Promise<void>((resolve) => (open = resolve));
    const results = Array.from({ length: 10 }, () =>
      service.inbox.process('webhook', 'at-once', async () => {
        await effect('at-once');
        await gate;
      }),
    );
    await waitFor('copies to wait at the row', async () => {
      const [waiting] = await database.query<{ count: string }>(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
      );
      return Number(waiting?.count) >= 7;
    });
    open();
    const duplicates = (await Promise.all(results)).map(({ duplicate }) => duplicate);
    expect(duplicates.filter((each) => !each)).toHaveLength(1);
    expect(await effects('at-once')).toBe(1);
  });

  it('G5: a failure leaves nothing behind but its error, and the next try is handled', async () => {
    const failing = service.inbox.process('webhook', 'fails', async () => {
      await effect('fails');
      await fail();
    });
    await expect(failing).rejects.toThrow('the work has failed');
    expect(await effects('fails')).toBe(0);
    await waitFor('the error to be noted', async () =>
      (await row('fails'))?.last_error?.includes('the work has failed'),
    );
    expect(await row('fails')).toMatchObject({ status: 'seen' });

    await expect(service.inbox.process('webhook', 'fails', () => effect('fails'))).resolves.toMatchObject({
      duplicate: false,
    });
    expect(await effects('fails')).toBe(1);
  });

  it('the work knows what it is processing', async () => {
    const seen = await service.inbox.process('webhook', 42n, (context) => ({
      context,
      same: context === inboxContext(),
    }));
    expect(seen).toMatchObject({
      value: {
        same: true,
        context: { consumer: 'webhook', messageId: '42', attempt: 1, duplicate: false },
      },
    });
    await expect(service.inbox.process('webhook', '42', () => effect('42'))).resolves.toEqual({
      duplicate: true,
    });
  });

  it('consumers and data sources remember on their own', async () => {
    for (const process of [
      () => service.inbox.process('one', 'shared', () => effect('shared')),
      () => service.inbox.process('two', 'shared', () => effect('shared')),
      () => service.billing.process('one', 'shared', () => effect('shared')),
    ]) {
      await expect(process()).resolves.toMatchObject({ duplicate: false });
      await expect(process()).resolves.toEqual({ duplicate: true });
    }
    expect(await effects('shared')).toBe(3);
    expect(await database.query('SELECT 1 FROM billing_inbox')).toHaveLength(1);
  });

  describe('inside a transaction of the application', () => {
    it('G1: what it did goes with the rollback of the outer transaction, and the message is no duplicate then', async () => {
      const outer = service.dataSource.transaction(async () => {
        await service.inbox.process('webhook', 'outer', () => effect('outer'));
        await fail();
      });
      await expect(outer).rejects.toThrow('the work has failed');
      expect(await row('outer')).toBeUndefined();
      await service.dataSource.transaction(() =>
        service.inbox.process('webhook', 'outer', () => effect('outer')),
      );
      expect(await effects('outer')).toBe(1);
    });

    it('a failure rolls back to the savepoint only, and the outer transaction may go on', async () => {
      await service.dataSource.transaction(async (manager) => {
        await effect('around');
        await expect(
          service.inbox.process('webhook', 'inner', async () => {
            await effect('inner');
            await fail();
          }),
        ).rejects.toThrow('the work has failed');
        await manager.query('SELECT 1');
      });
      expect([await effects('around'), await effects('inner')]).toEqual([1, 0]);
      await waitFor('the error to be noted', async () => (await row('inner'))?.last_error);
    });

    it('the failure policy waits for the end of the outer transaction, which holds the lock of the row: no self-deadlock', async () => {
      await expect(service.inbox.process('webhook', 'locked', fail)).rejects.toThrow();
      await waitFor('a row to lock', () => row('locked'));
      await database.query("UPDATE inbox_message SET last_error = 'old' WHERE message_id = 'locked'");

      const outer = service.dataSource.transaction(async (manager) => {
        await manager.query("SELECT 1 FROM inbox_message WHERE message_id = 'locked' FOR UPDATE");
        await service.inbox.process('webhook', 'locked', fail).catch(() => undefined);
        // Whoever writes the row now would wait for this very transaction.
        const waiting = await waitFor(
          'somebody to wait for this transaction',
          async () =>
            Number(
              (
                await database.query<{ count: string }>(
                  "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
                )
              )[0]?.count,
            ),
          { timeout: 1_000 },
        ).catch(() => 0);
        expect(await row('locked')).toMatchObject({ last_error: 'old' });
        return waiting;
      });
      expect(await outer).toBe(0);
      await waitFor('the error to be noted', async () =>
        (await row('locked'))?.last_error?.includes('the work has failed'),
      );
    });

    it('G7: the note of a first failure does not change the row of the second try, which the outer transaction has committed', async () => {
      await service.dataSource.transaction(async () => {
        await service.inbox.process('webhook', 'again', fail).catch(() => undefined);
        await service.inbox.process('webhook', 'again', () => effect('again'));
      });
      await service.inbox.process('other', 'again', fail).catch(() => undefined);
      await waitFor(
        'a later note',
        async () => (await database.query("SELECT 1 FROM inbox_message WHERE consumer = 'other'")).length,
      );
      expect(await row('again')).toMatchObject({ status: 'done', last_error: null });
      expect(await effects('again')).toBe(1);
    });

    it('refuses another isolation level than the outer one', async () => {
      const refused = service.dataSource.transaction(() =>
        service.inbox.process('webhook', 'level', () => undefined, { isolationLevel: 'SERIALIZABLE' }),
      );
      await expect(refused).rejects.toThrow(IsolationLevelRefusedError);
    });
  });

  it('serialization failures run the work again at once', async () => {
    let runs = 0;
    await service.inbox.process('webhook', 'conflict', async () => {
      await effect('conflict');
      if (++runs < 3)
        await service.dataSource.query("DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '40001'; END $$");
    });
    expect(runs).toBe(3);
    expect(await effects('conflict')).toBe(1);
  });

  it('work that takes too long is rolled back', async () => {
    const slow = service.inbox.process(
      'webhook',
      'slow',
      async () => {
        await effect('slow');
        await service.dataSource.query('SELECT pg_sleep(30)');
      },
      { timeout: 200 },
    );
    await expect(slow).rejects.toThrow(HandlerTimeoutError);
    expect(await effects('slow')).toBe(0);
  });

  it('a nested call outside of the transaction does not wait for the place that the outer call has', async () => {
    const small = await startServiceApp(database, { maxConcurrentHandlers: 1 });
    try {
      const nested = small.inbox.process('webhook', 'nest', () =>
        small.transactions.outside(() => small.inbox.process('webhook', 'nested', () => 'inner')),
      );
      await expect(nested).resolves.toEqual({
        duplicate: false,
        value: { duplicate: false, value: 'inner' },
      });
    } finally {
      await small.app.close();
    }
  });

  it('G12: a shutdown waits for work that runs, and nothing is begun after it', async () => {
    const ending = await startServiceApp(database);
    let open = () => undefined as void;
    const gate = new Promise<void>((resolve) => (open = resolve));
    const running = ending.inbox.process('webhook', 'running', async () => {
      await gate;
      await ending.dataSource.query("INSERT INTO effect VALUES ('running')");
    });
    const closed = ending.app.close();
    let late = 0;
    await waitFor('a refusal', () =>
      ending.inbox
        .process('webhook', `late-${++late}`, () => undefined)
        .then(() => false)
        .catch((error: unknown) => error instanceof ShuttingDownError),
    );
    open();
    await Promise.all([running, closed]);
    expect(await effects('running')).toBe(1);
  });

  describe('refuses before any SQL', () => {
    const refused: [string, () => Promise<unknown>, new (...args: never[]) => Error, RegExp][] = [
      ['a missing id', () => call('webhook', undefined), MessageIdError, /is missing/],
      ['an empty id', () => call('webhook', ''), MessageIdError, /is missing/],
      ['a blank id', () => call('webhook', '  '), MessageIdError, /is missing/],
      ['C14: an id that is too long', () => call('webhook', 'é'.repeat(128)), MessageIdError, /255 bytes/],
      ['an id that is no id', () => call('webhook', {}), MessageIdError, /neither a string nor a number/],
      ['an unsafe number', () => call('webhook', 2 ** 53), MessageIdError, /safe integer/],
      ['an id with NUL', () => call('webhook', 'a\0'), MessageIdError, /NUL/],
      ['no consumer', () => call('', '1'), InvalidOptionError, /process\(\).consumer/],
      ['C14: a consumer that is too long', () => call('c'.repeat(256), '1'), InvalidOptionError, /consumer/],
      ['an unknown option', () => call('webhook', '1', { wait: 1 }), InvalidOptionError, /process\(\).wait/],
      ['a bad timeout', () => call('webhook', '1', { timeout: 'soon' }), InvalidOptionError, /timeout/],
      [
        'a bad level',
        () => call('webhook', '1', { isolationLevel: 'LOW' }),
        InvalidOptionError,
        /isolationLevel/,
      ],
      ['no work', () => call('webhook', '1', {}, 'work'), InvalidOptionError, /process\(\).work/],
    ];
    const call = (consumer: string, id: unknown, options: object = {}, work: unknown = () => undefined) =>
      service.inbox.process(consumer, id as string, work as () => void, options);

    it.each(refused)('%s', async (_name, attempt, type, text) => {
      // The caller's transaction stays usable.
      await service.dataSource.transaction(async (manager) => {
        const error = await attempt().catch((reason: unknown) => reason);
        expect(error).toBeInstanceOf(type);
        expect((error as Error).message).toMatch(text);
        await manager.query('SELECT 1');
      });
    });
  });
});
