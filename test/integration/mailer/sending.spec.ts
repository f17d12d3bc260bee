import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Injectable } from '@nestjs/common';
import { APP_GUARD } from '@nestjs/core';
import { EventEmitter2, EventEmitterModule, OnEvent } from '@nestjs/event-emitter';
import { InboxOutboxModule, InvalidMessageError, TransactionRequiredError } from '../../../lib';
import { getDataSourceToken, TypeOrmModule } from '@nestjs/typeorm';
import { createTransport } from 'nodemailer';
import type { DataSource } from 'typeorm';
import {
  getMailerOutboxToken,
  MailerOutboxModule,
  MailerOutboxService,
  type Mail,
} from '../../../lib/mailer';
import { waitFor } from '../../support/wait-for';
import { MailApp, MailSetup } from './mail-setup';

@Injectable()
class Listener {
  constructor(private readonly mailer: MailerOutboxService) {}

  @OnEvent('registered', { suppressErrors: false })
  async onRegistered(name: string): Promise<void> {
    await this.mailer.send(to(name));
  }
}

let setup: MailSetup;
beforeAll(async () => (setup = await MailSetup.open()));
afterEach(() => setup.reset());
afterAll(() => setup.close());

const to = (name: string): Mail => ({ to: `${name}@example.com`, subject: name, text: name });
const register = (name: string) => `INSERT INTO effect (name) VALUES ('${name}')`;

describe('a mail and the transaction it is sent in', () => {
  it('G1: is sent after the commit, without RabbitMQ', async () => {
    const app = await setup.start();
    const id = await app.dataSource.transaction(async (manager) => {
      await manager.query(register('ann'));
      return app.mailer.send(to('ann'));
    });
    await setup.becomes('sent', id);
    expect(setup.server.mails).toMatchObject([
      {
        from: 'claims@example.com',
        to: ['ann@example.com'],
        headers: { from: 'Claims <claims@example.com>' },
      },
    ]);
  });

  it('G1: is not sent when the registration is rolled back', async () => {
    const app = await setup.start();
    const registration = app.dataSource.transaction(async (manager) => {
      await manager.query(register('bob'));
      await app.mailer.send(to('bob'));
      throw new Error('rolled back');
    });
    await expect(registration).rejects.toThrow('rolled back');
    // What was sent later has arrived, so the other would have too.
    await setup.becomes('sent', await app.send(to('ann')));
    expect(setup.arrivedFor()).toEqual(['ann@example.com']);
    expect(await setup.rows()).toHaveLength(1);
  });

  it('G1: joins through an event listener that knows nothing of it, and rolls back with it', async () => {
    const app = await setup.start({ imports: [EventEmitterModule.forRoot()], providers: [Listener] });
    const events = app.app.context.get(EventEmitter2);
    const registration = app.dataSource.transaction(async (manager) => {
      await manager.query(register('bob'));
      await events.emitAsync('registered', 'bob');
      throw new Error('rolled back');
    });
    await expect(registration).rejects.toThrow('rolled back');
    expect(await setup.rows()).toEqual([]);
    await app.dataSource.transaction(() => events.emitAsync('registered', 'ann'));
    await waitFor('the mail', () => setup.server.mails.length > 0);
    expect(setup.arrivedFor()).toEqual(['ann@example.com']);
    // A mail that cannot be written fails the registration.
    const malformed = app.dataSource.transaction(() => events.emitAsync('registered', 'no address'));
    await expect(malformed).rejects.toThrow(InvalidMessageError);
  });

  it('is refused outside of one', async () => {
    const app = await setup.start();
    await expect(app.mailer.send(to('ann'))).rejects.toThrow(TransactionRequiredError);
  });

  it('may be one that is driven by hand', async () => {
    const app = await setup.start();
    const runner = app.dataSource.createQueryRunner();
    await runner.startTransaction();
    const id = await app.mailer.send(to('ann'), { manager: runner.manager });
    await runner.rollbackTransaction();
    await runner.startTransaction();
    const [other] = await app.mailer.sendMany([{ mail: to('bob') }], { manager: runner.manager });
    await runner.commitTransaction();
    await runner.release();
    await setup.becomes('sent', other!);
    expect((await setup.rows()).map(({ message_id }) => message_id)).not.toContain(id);
  });

  it('stays usable when the mail cannot be sent as it is', async () => {
    const app = await setup.start();
    await app.dataSource.transaction(async (manager) => {
      await expect(app.mailer.send({ subject: 'to nobody' })).rejects.toThrow(InvalidMessageError);
      await expect(app.mailer.sendMany([{ mail: to('ann') }, { mail: to('no address') }])).rejects.toThrow(
        InvalidMessageError,
      );
      await manager.query(register('ann'));
    });
    expect(await setup.local.effects()).toEqual(['ann']);
    expect(await setup.rows()).toEqual([]);
  });

  it('is not open while the mail server takes its time', async () => {
    let answer: () => void = () => undefined;
    const asked = new Promise<void>((resolve) => {
      setup.server.script = {
        onMail: () => {
          resolve();
          return new Promise((goOn) => (answer = () => goOn(undefined)));
        },
      };
    });
    const app = await setup.start();
    const id = await app.send(to('ann'));
    await asked;
    const { database } = setup.local;
    const open = await database.query(
      `SELECT pid, query FROM pg_stat_activity
       WHERE datname = current_database() AND pid <> pg_backend_pid() AND state LIKE 'idle in transaction%'`,
    );
    expect(open).toEqual([]);
    // Nor is the row locked.
    await database.query('SELECT 1 FROM outbox_message WHERE message_id = $1 FOR UPDATE NOWAIT', [id]);
    answer();
    await setup.becomes('sent', id);
  });
});

describe('the identity of a mail', () => {
  it('G2: is the same in every attempt: Message-ID and X-Outbox-Message-Id', async () => {
    const attempts: Record<string, string>[] = [];
    setup.server.script = {
      onMail: ({ headers }) => (attempts.push(headers), attempts.length < 3 ? '451 Later' : undefined),
    };
    const app = await setup.start();
    const id = await app.send(to('ann'));
    await setup.becomes('sent', id);
    expect(attempts.map((headers) => [headers['message-id'], headers['x-outbox-message-id']])).toEqual(
      Array(3).fill([`<${id}@example.com>`, id]),
    );
  });

  it('is what the application says, where it does', async () => {
    const app = await setup.start();
    const mail = { ...to('ann'), messageId: '<mine@example.com>', headers: { 'X-Campaign': 'spring' } };
    const id = await app.send(mail, { messageId: 'an id of my own' });
    expect(id).toBe('an id of my own');
    await setup.becomes('sent', id);
    await setup.becomes('sent', await app.send(to('bob'), { messageId: 'another <id>' }));
    expect(setup.server.mails.map(({ headers }) => headers)).toMatchObject([
      {
        'message-id': '<mine@example.com>',
        'x-outbox-message-id': 'an id of my own',
        'x-campaign': 'spring',
      },
      { 'message-id': expect.stringMatching(/^<[0-9a-f]{64}@example\.com>$/) as string },
    ]);
  });

  it('C51: a deduplication key lets one mail through', async () => {
    const app = await setup.start();
    const first = await app.send(to('ann'), { deduplicationKey: 'welcome-ann' });
    await setup.becomes('sent', first);
    expect(await app.send(to('ann'), { deduplicationKey: 'welcome-ann' })).toBe(first);
    expect(await setup.rows()).toHaveLength(1);
  });
});

describe('what a mail carries', () => {
  it('has attachments, stored or by reference, as they are when it is sent', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'mailer-'));
    const path = join(folder, 'report.txt');
    const web = createServer((request, response) =>
      response.end(`fetched ${String(request.headers['x-token'])}`),
    );
    web.listen(0, '127.0.0.1');
    await once(web, 'listening');
    const { port } = web.address() as AddressInfo;
    try {
      const app = await setup.start();
      const id = await app.send({
        ...to('ann'),
        html: '<img src="cid:logo">',
        attachments: [
          { filename: 'stored.bin', content: Buffer.from([0, 1, 254, 255]) },
          { filename: 'logo.png', cid: 'logo', content: 'iVBORw==', encoding: 'base64' },
          { filename: 'report.txt', path },
          { filename: 'web.txt', href: `http://127.0.0.1:${port}/`, httpHeaders: { 'x-token': 't1' } },
        ],
      });
      // A file that is not there yet is no reason to give up.
      await waitFor('a failed attempt', async () => (await setup.row(id)).attempts > 0);
      expect((await setup.row(id)).last_error).toContain('ENOENT');
      await writeFile(path, 'the report');
      await setup.becomes('sent', id);
    } finally {
      web.close();
      await rm(folder, { recursive: true });
    }
    const [{ raw } = { raw: '' }] = setup.server.mails;
    expect(raw).toContain(Buffer.from([0, 1, 254, 255]).toString('base64'));
    expect(raw).toContain('Content-ID: <logo>');
    expect(raw).toContain(Buffer.from('the report').toString('base64'));
    expect(raw).toContain(Buffer.from('fetched t1').toString('base64'));
  });

  it('is what it was at the call, in every script', async () => {
    const app = await setup.start();
    const mail = { ...to('ann'), subject: 'Grüße 🎉', text: 'žluťoučký\0 €' };
    await app.dataSource.transaction(async () => {
      await app.mailer.send(mail);
      mail.text = 'changed';
    });
    await waitFor('the mail', () => setup.server.mails.length > 0);
    const { raw, headers } = setup.server.mails[0]!;
    expect(headers.subject).toBe(`=?UTF-8?B?${Buffer.from('Grüße 🎉').toString('base64')}?=`);
    expect(raw).toContain(Buffer.from('žluťoučký\0 €').toString('base64'));
    expect(raw).not.toContain('changed');
  });

  it('may be for plugins of a transporter', async () => {
    const transport = createTransport({ url: setup.server.url, pool: true });
    transport.use('compile', (mail, callback) => {
      const { template, context } = mail.data as { template?: string; context?: { name: string } };
      if (template === 'welcome') mail.data.text = `Hello ${context?.name}`;
      callback();
    });
    const app = await setup.start({ mailer: { transport, pluginFields: ['template', 'context'] } });
    const mail = { to: 'ann@example.com', template: 'welcome', context: { name: 'Ann' } };
    await setup.becomes('sent', await app.send(mail));
    expect(setup.server.mails[0]!.raw).toContain('Hello Ann');
    transport.close();
  });
});

describe('when a mail is sent', () => {
  it('C35: is not before its date, given as a date or as a delay', async () => {
    const app = await setup.start();
    const late = await app.send(to('late'), { delay: '1h' });
    const soon = await app.send(to('soon'), { deliverAt: new Date(Date.now() + 1_500) });
    const now = await app.send(to('now'));
    await setup.becomes('sent', now);
    await setup.becomes('sent', soon);
    expect(setup.server.mails.map(({ to: [address] }) => address)).toEqual([
      'now@example.com',
      'soon@example.com',
    ]);
    const [times] = await setup.local.database.query<{ waited: boolean }>(
      'SELECT settled_at >= available_at AS waited FROM outbox_message WHERE message_id = $1',
      [soon],
    );
    expect(times).toEqual({ waited: true });
    expect(await setup.row(late)).toMatchObject({ status: 'scheduled', attempts: 0 });
  });

  it('is never, after it has expired', async () => {
    const app = await setup.start();
    const id = await app.send(to('ann'), { expiresAt: new Date(Date.now() - 1_000) });
    expect((await setup.becomes('dead', id)).last_error).toContain('Expired');
    expect(setup.server.mails).toEqual([]);
  });

  it('G12: a shutdown lets what is under way finish, and leaves the rest in the outbox', async () => {
    let answer: () => void = () => undefined;
    const asked = new Promise<void>((resolve) => {
      setup.server.script = {
        onMail: () => {
          resolve();
          return new Promise((goOn) => (answer = () => goOn(undefined)));
        },
      };
    });
    const app = await setup.start({ mailer: { concurrency: 1 } });
    const [first, second] = await app.dataSource.transaction(() =>
      app.mailer.sendMany([{ mail: to('ann') }, { mail: to('bob') }]),
    );
    await asked;
    const closing = app.app.close();
    answer();
    await closing;
    expect(await setup.row(first!)).toMatchObject({ status: 'sent' });
    expect(await setup.row(second!)).toMatchObject({ status: 'ready', attempts: 0, claim_token: null });
  });
});

describe('the module', () => {
  it('is configured by a factory too', async () => {
    const module = MailerOutboxModule.forRootAsync({
      useFactory: () => ({ transport: setup.server.url, from: 'async@example.com' }),
    });
    const app = new MailApp(await setup.local.start({ imports: [module], outbox: { retention: '1d' } }));
    await setup.becomes('sent', await app.send(to('ann')));
    expect(setup.server.mails).toMatchObject([{ from: 'async@example.com' }]);
  });

  it('sends past the guards of the application', async () => {
    const guard = { canActivate: jest.fn(() => false) };
    const app = await setup.start({ providers: [{ provide: APP_GUARD, useValue: guard }] });
    await setup.becomes('sent', await app.send(to('ann')));
    expect(guard.canActivate).not.toHaveBeenCalled();
  });
});

describe('the module for a named data source', () => {
  it('sends what that one’s outbox holds', async () => {
    await setup.local.database.query('CREATE SCHEMA IF NOT EXISTS billing');
    const billing = [
      TypeOrmModule.forRoot({
        name: 'billing',
        type: 'postgres',
        url: setup.local.database.url,
        schema: 'billing',
        autoLoadEntities: true,
        synchronize: true,
      }),
      InboxOutboxModule.forRoot({ dataSource: 'billing', schema: 'billing', outbox: { retention: '1d' } }),
      MailerOutboxModule.forRoot({
        dataSource: 'billing',
        transport: setup.server.url,
        from: 'b@example.com',
      }),
    ];
    const app = await setup.start({ imports: billing });
    const mailer = app.app.context.get<MailerOutboxService>(getMailerOutboxToken('billing'));
    expect(mailer).not.toBe(app.mailer);
    const dataSource = app.app.context.get<DataSource>(getDataSourceToken('billing'));
    await dataSource.transaction(() => mailer.send(to('bill')));
    await setup.becomes('sent', await app.send(to('ann')));
    await waitFor('both mails', () => setup.server.mails.length === 2);
    expect(setup.server.mails.map(({ from, to: [address] }) => `${from} ${address}`).sort()).toEqual([
      'b@example.com bill@example.com',
      'claims@example.com ann@example.com',
    ]);
    expect(await setup.rows()).toHaveLength(1);
  });
});
