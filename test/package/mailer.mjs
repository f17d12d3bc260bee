import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { compile, complaintsAboutDeclarations } from './new-project.mjs';
import { run } from './run.mjs';

/** What a user of the mailer writes. */
const code = `import { Injectable, Module } from '@nestjs/common';
import { MailerOutboxModule, MailerOutboxService, type Mail } from 'nestjs-inbox-outbox/mailer';
import { createTransport } from 'nodemailer';

@Injectable()
export class Welcome {
  constructor(private readonly mailer: MailerOutboxService) {}

  welcome(to: string): Promise<string> {
    const mail: Mail = { to, subject: 'Welcome', text: 'x', attachments: [{ filename: 'a', content: Buffer.from('a') }] };
    return this.mailer.send(mail, { delay: '1m', deduplicationKey: to });
  }
}

class SendEmailCommand { constructor(readonly input: unknown) {} }
const sesClient = { send: async (command: unknown) => ({ MessageId: String(command) }) };
export const transports = [
  MailerOutboxModule.forRoot({ transport: 'smtp://mail.example.com', from: 'a@example.com', rateLimit: 14 }),
  MailerOutboxModule.forRoot({ transport: { host: 'mail.example.com', port: 587, auth: { user: 'u', pass: 'p' } } }),
  MailerOutboxModule.forRoot({ transport: { SES: { sesClient, SendEmailCommand } } }),
  MailerOutboxModule.forRoot({ transport: createTransport({ jsonTransport: true }) }),
  MailerOutboxModule.forRootAsync({ useFactory: () => ({ transport: 'smtp://mail.example.com' }) }),
];

@Module({ imports: [transports[0]!], providers: [Welcome] })
export class MailModule {}
`;

/**
 * The subpath that needs nodemailer, in a project that has the package: absent without it, complete with it.
 *
 * @param report told each result
 */
export async function checkMailer(folder, report) {
  const node = (...args) => run(process.execPath, args, { cwd: folder });
  const names = 'MailerOutboxModule, MailerOutboxService';
  const test = `if (![${names}].every((each) => typeof each === 'function')) process.exit(1)`;
  const without = await node('-e', "require('nestjs-inbox-outbox/mailer')").then(
    () => ['it was found'],
    ({ message }) => (message.includes("Cannot find module 'nodemailer") ? [] : [message]),
  );
  report('the mailer without nodemailer says what is missing', without);

  const flags = ['--prefer-offline', '--no-audit', '--no-fund', '--loglevel', 'error'];
  await run('npm', ['install', ...flags, 'nodemailer@10'], { cwd: folder });
  await writeFile(join(folder, 'src/mail.module.ts'), code);
  await compile(folder);
  report('the mailer compiles in a strict project', []);
  report('the mailer’s declarations are sound', await complaintsAboutDeclarations(folder));
  await compile(
    folder,
    '--noEmit',
    '--module',
    'commonjs',
    '--moduleResolution',
    'node10',
    '--resolvePackageJsonExports',
    'false',
  );
  report('the mailer compiles with the module resolution of older projects', []);
  await node('-e', `const { ${names} } = require('nestjs-inbox-outbox/mailer'); ${test}`);
  await node('--input-type=module', '-e', `import { ${names} } from 'nestjs-inbox-outbox/mailer'; ${test}`);
  report('require() and import find the mailer', []);
}
