import type { Transport } from 'nodemailer';
import { waitFor } from '../../support/wait-for';
import { MailSetup } from './mail-setup';

let setup: MailSetup;
beforeAll(async () => (setup = await MailSetup.open()));
afterEach(() => setup.reset());
afterAll(() => setup.close());

const newsletter = (size: number) =>
  Array.from({ length: size }, (_, i) => ({
    mail: { to: `user${i}@example.com`, subject: 'News', text: 'x' },
  }));

/** Takes everything at once. */
function openInstantTransport() {
  const recipients: string[] = [];
  const times: number[] = [];
  const transport: Transport = {
    name: 'instant',
    version: '1',
    send: (mail, callback) => {
      const { to } = mail.message.getEnvelope();
      recipients.push(...to);
      times.push(performance.now());
      callback(null, { envelope: { from: '', to }, messageId: 'x' });
    },
  };
  return { transport, recipients, times };
}

describe('a newsletter', () => {
  it('of 10,000 mails in one transaction leaves without waiting for a tick, each mail once', async () => {
    const { transport, recipients } = openInstantTransport();
    const app = await setup.start({
      mailer: { transport, concurrency: 200 },
      outbox: { pollInterval: '1h', maxConcurrentHandlers: 200, retention: false },
    });
    const mails = newsletter(10_000);
    await app.dataSource.transaction(() => app.mailer.sendMany(mails));
    await waitFor('all mails', () => recipients.length >= mails.length, { timeout: 120_000 });
    await waitFor('an empty outbox', async () => (await setup.rows()).length === 0);
    expect(recipients).toHaveLength(mails.length);
    expect(new Set(recipients).size).toBe(mails.length);
  }, 150_000);

  it('goes over a few SMTP connections that are used again and again', async () => {
    const app = await setup.start({ mailer: { concurrency: 3 } });
    const before = setup.server.connections;
    const ids = await app.dataSource.transaction(() => app.mailer.sendMany(newsletter(150)));
    for (const id of ids) await setup.becomes('sent', id);
    expect(setup.server.mails).toHaveLength(150);
    expect(new Set(setup.arrivedFor()).size).toBe(150);
    // nodemailer takes a new one after 100 mails.
    expect(setup.server.connections - before).toBeLessThanOrEqual(6);
  });

  it('keeps to the rate limit', async () => {
    const { transport, recipients, times } = openInstantTransport();
    const app = await setup.start({ mailer: { transport, rateLimit: 20 } });
    const begun = performance.now();
    await app.dataSource.transaction(() => app.mailer.sendMany(newsletter(40)));
    await waitFor('all mails', () => recipients.length === 40);
    // The n-th mail not before its turn; how much later is the machine's affair.
    times.forEach((time, n) => expect(time - begun).toBeGreaterThanOrEqual(n * 50 - 10));
  });
});
