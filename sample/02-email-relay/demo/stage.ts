import { join } from 'node:path';
import type { Cleanup } from '../../shared/cleanup';
import { databaseServer } from '../../shared/database-server';
import { freePort } from '../../shared/free-port';
import { say, show } from '../../shared/narrator';
import { Program } from '../../shared/program';
import type { Sql } from '../../shared/sql';
import { temporaryDatabase } from '../../shared/temporary-database';
import { MailServer } from './mail-server';

/** A mail as the outbox holds it. */
export interface OutboxRow {
  id: string;
  status: string;
  attempts: number;
  error: string | null;
}

/** The sample's application in a process of its own, its database, and the mail server. */
export class Stage {
  private app: Program | undefined;
  private readonly logs: string[] = [];

  private constructor(
    readonly sql: Sql,
    readonly mailServer: MailServer,
    private readonly port: number,
  ) {}

  static async prepare(cleanup: Cleanup): Promise<Stage> {
    const sql = await temporaryDatabase(await databaseServer(cleanup), 'mails', cleanup);
    const mailServer = await MailServer.start();
    cleanup.add(() => mailServer.goAway());
    const stage = new Stage(sql, mailServer, await freePort());
    cleanup.add(() => stage.stopApp());
    return stage;
  }

  /** @param env what differs from SMTP */
  async startApp(env: Record<string, string> = {}): Promise<void> {
    this.app = await Program.start(join(__dirname, '../main.ts'), {
      env: {
        DATABASE_URL: this.sql.url,
        SMTP_URL: this.mailServer.url,
        MAIL_FIRST_RETRY_MS: '1000',
        PORT: String(this.port),
        ...env,
      },
    });
  }

  async stopApp(): Promise<void> {
    await this.app?.stop();
    this.keepLog();
  }

  async killApp(): Promise<void> {
    this.app?.kill('SIGKILL');
    await this.app?.ended();
    this.keepLog();
  }

  log(): string {
    return [...this.logs, this.app?.log ?? ''].join('\n');
  }

  /** @returns the status of the answer */
  async register(name: string, by: 'service' | 'event' = 'service'): Promise<number> {
    const response = await fetch(`http://127.0.0.1:${this.port}/users?by=${by}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ name, email: addressOf(name) }),
    });
    say(`POST /users?by=${by} ${name}: ${response.status}`);
    return response.status;
  }

  users(name: string): Promise<number> {
    return this.sql.number('SELECT count(*) FROM users WHERE name = $1', [name]);
  }

  /** The mail to that user. */
  async row(name: string): Promise<OutboxRow | undefined> {
    const [row] = await this.sql.rows<OutboxRow>(
      `SELECT message_id AS id, status, attempts, last_error AS error FROM outbox_message WHERE body LIKE $1`,
      [`%${addressOf(name)}%`],
    );
    return row;
  }

  async show(name: string): Promise<void> {
    const row = await this.row(name);
    const failed = row && row.attempts > 0 ? `, ${row.attempts} failed attempts` : '';
    show('users', (await this.users(name)) > 0 ? [name] : []);
    show('outbox', row ? [`${row.id}, ${row.status}${failed}`] : []);
    show(
      'mail server',
      this.mailServer.to(addressOf(name)).map(({ messageId }) => messageId),
    );
  }

  private keepLog(): void {
    if (this.app) this.logs.push(this.app.log);
    this.app = undefined;
  }
}

export function addressOf(name: string): string {
  return `${name.toLowerCase()}@example.com`;
}
