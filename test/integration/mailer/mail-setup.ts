import { DataSource } from 'typeorm';
import type { OutboxOptions } from '../../../lib';
import {
  MailerOutboxModule,
  MailerOutboxService,
  type Mail,
  type MailerOutboxModuleOptions,
  type SendMailOptions,
} from '../../../lib/mailer';
import { startMailServer, type MailServer, type MailServerScript } from '../../support/mail-server';
import { waitFor } from '../../support/wait-for';
import { LocalSetup, type LocalApp, type LocalAppOptions, type OutboxRow } from '../outbox-local/local-setup';

export interface MailAppOptions extends LocalAppOptions {
  readonly mailer?: Partial<MailerOutboxModuleOptions>;
}

/** An application that sends mails, its database, and a mail server that does what a test says. */
export class MailSetup {
  private constructor(
    readonly local: LocalSetup,
    readonly server: MailServer,
  ) {}

  static async open(): Promise<MailSetup> {
    return new MailSetup(await LocalSetup.open(), await startMailServer());
  }

  async start({ mailer, imports = [], outbox, ...options }: MailAppOptions = {}): Promise<MailApp> {
    const module = MailerOutboxModule.forRoot({
      transport: this.server.url,
      from: 'Claims <claims@example.com>',
      backoff: { initialDelay: 50, jitter: 0 },
      ...mailer,
    });
    return new MailApp(
      await this.local.start({
        ...options,
        outbox: { retention: '1d', ...outbox } satisfies OutboxOptions,
        imports: [module, ...imports],
      }),
    );
  }

  rows(): Promise<OutboxRow[]> {
    return this.local.rows();
  }

  async row(messageId: string): Promise<OutboxRow> {
    const row = (await this.rows()).find((each) => each.message_id === messageId);
    if (!row) throw new Error(`There is no message ${messageId}`);
    return row;
  }

  async becomes(status: string, messageId: string): Promise<OutboxRow> {
    let row: OutboxRow | undefined;
    const isSo = async () => (row = await this.row(messageId)).status === status;
    await waitFor(`message ${messageId} to be ${status}`, isSo, { timeout: 40_000 }).catch((error: Error) => {
      throw new Error(`${error.message}; the row is ${JSON.stringify(row)}`);
    });
    return row as OutboxRow;
  }

  /** Addresses that a mail has arrived for, one for each mail and recipient. */
  arrivedFor(): string[] {
    return this.server.mails.flatMap(({ to }) => to).sort();
  }

  async reset(script: MailServerScript = {}): Promise<void> {
    await this.local.reset();
    this.server.script = script;
    await this.server.comeBack();
    (this.server.mails as unknown[]).length = 0;
  }

  async close(): Promise<void> {
    await this.local.close();
    await this.server.close();
  }
}

export class MailApp {
  readonly mailer: MailerOutboxService;
  readonly dataSource: DataSource;

  constructor(readonly app: LocalApp) {
    this.mailer = app.context.get(MailerOutboxService);
    this.dataSource = app.context.get(DataSource);
  }

  /** In a transaction of its own. */
  send(mail: Mail, options: SendMailOptions = {}): Promise<string> {
    return this.dataSource.transaction(() => this.mailer.send(mail, options));
  }
}
