import { DataSource } from 'typeorm';
import { inboxOutboxEntities } from '../../../lib';
import { startAppProcess, type AppProcess, type AppProcessOptions } from '../../support/app-process';
import { openTestBroker, type TestBroker } from '../../support/test-broker';
import { createTestDatabase, type TestDatabase } from '../../support/test-database';
import { waitFor } from '../../support/wait-for';
import type { FixtureSettings } from './fixtures/settings';

const FIXTURES = 'test/integration/inbox/fixtures';

export interface InboxRowSeen {
  consumer: string;
  message_id: string;
  status: string;
  attempts: number;
  body: Buffer | null;
  headers: string | null;
  last_error: string | null;
}

/** For tests of what goes to the broker's dead letters. */
export const rejecting = { inbox: { onFailure: 'reject' as const } };

/** Database, broker and app processes of one spec file. */
export class InboxSetup {
  private readonly apps: AppProcess[] = [];

  private constructor(
    readonly database: TestDatabase,
    readonly broker: TestBroker,
  ) {}

  static async open(): Promise<InboxSetup> {
    const [database, broker] = await Promise.all([createTestDatabase({ prefix: 'inbox' }), openTestBroker()]);
    const setup = new InboxSetup(database, broker);
    await createSchema(database);
    await broker.assertQueue('dead');
    return setup;
  }

  get deadLetters(): string {
    return this.broker.queue('dead');
  }

  /** Starts a fixture; it declares its queue itself. */
  start(
    fixture: string,
    settings: Partial<FixtureSettings> & { queue: string },
    options: AppProcessOptions = {},
  ): AppProcess {
    const complete: FixtureSettings = {
      databaseUrl: this.database.url,
      amqpUrl: this.broker.url,
      exchange: '',
      deadLetters: this.deadLetters,
      poolSize: 10,
      prefetch: 10,
      inbox: {},
      idempotent: {},
      variant: '',
      ...settings,
    };
    const app = startAppProcess(`${FIXTURES}/${fixture}.ts`, {
      ...options,
      env: { ...options.env, FIXTURE: JSON.stringify(complete) },
    });
    this.apps.push(app);
    return app;
  }

  async started(
    fixture: string,
    settings: Partial<FixtureSettings> & { queue: string },
    options?: AppProcessOptions,
  ): Promise<AppProcess> {
    const app = this.start(fixture, settings, options);
    await app.waitFor('ready');
    return app;
  }

  /** How often each message had its effect, as `consumer message` → rows. */
  async effects(messageId?: string): Promise<Record<string, number>> {
    const rows = await this.database.query<{ key: string; count: string }>(
      `SELECT consumer || ' ' || message_id AS key, count(*) AS count FROM effect
       WHERE $1::text IS NULL OR message_id = $1 GROUP BY 1`,
      [messageId ?? null],
    );
    return Object.fromEntries(rows.map(({ key, count }) => [key, Number(count)]));
  }

  async effectCount(messageId?: string): Promise<number> {
    return Object.values(await this.effects(messageId)).reduce((sum, count) => sum + count, 0);
  }

  rows(messageId?: string): Promise<InboxRowSeen[]> {
    return this.database.query<InboxRowSeen & Record<string, unknown>>(
      'SELECT * FROM inbox_message WHERE $1::text IS NULL OR message_id = $1',
      [messageId ?? null],
    );
  }

  async status(messageId: string): Promise<string | undefined> {
    return (await this.rows(messageId))[0]?.status;
  }

  async stopApps(): Promise<void> {
    await Promise.all(this.apps.splice(0).map((app) => app.close()));
  }

  async close(): Promise<void> {
    await this.stopApps();
    await this.broker.close();
    await this.database.close();
  }
}

export async function createSchema(database: TestDatabase): Promise<void> {
  const dataSource = new DataSource({ type: 'postgres', url: database.url, entities: inboxOutboxEntities() });
  await dataSource.initialize();
  await dataSource.synchronize();
  await dataSource.destroy();
  await database.query(
    'CREATE TABLE effect (id bigint GENERATED ALWAYS AS IDENTITY, consumer text, message_id text, n int, at timestamptz DEFAULT clock_timestamp())',
  );
}

/** Waits until the processes have settled that many messages: acked them, or rejected them for good. */
export async function settled(count: number, ...apps: AppProcess[]): Promise<void> {
  const done = (app: AppProcess) =>
    app.events('ack').length +
    app.events<{ requeue: boolean }>('nack').filter(({ requeue }) => !requeue).length;
  await waitFor(`${count} settled messages`, () => apps.reduce((sum, app) => sum + done(app), 0) >= count);
}

/** What a fixture's log says, e.g. `logged(app, 'error')`. */
export function logged(app: AppProcess, level: string): string[] {
  return app
    .events<{ level: string; message: string }>('log')
    .filter((entry) => entry.level === level)
    .map(({ message }) => message);
}
