import { createTransport } from 'nodemailer';
import { startMailServer, type MailServer } from '../../support/mail-server';

const mail = { from: 'a@example.com', to: ['b@example.com', 'c@example.com'], subject: 'x', text: 'x' };

describe('The mail server of the tests', () => {
  let server: MailServer;
  const send = (more: object = {}) => createTransport({ url: server.url, ...more }).sendMail(mail);
  beforeEach(async () => void (server = await startMailServer()));
  afterEach(() => server.close());

  it('receives mails', async () => {
    await send();
    expect(server.mails).toMatchObject([
      { from: 'a@example.com', to: ['b@example.com', 'c@example.com'], headers: { subject: 'x' } },
    ]);
  });

  it('refuses what it is told to', async () => {
    server.script = { onRecipient: (to) => (to.startsWith('b') ? '450 Greylisted' : undefined) };
    expect(await send()).toMatchObject({ accepted: ['c@example.com'], rejected: ['b@example.com'] });
    server.script = { onSender: () => '553 Not you' };
    await expect(send()).rejects.toMatchObject({ code: 'EENVELOPE', responseCode: 553 });
    server.script = { onMail: () => '554 Spam' };
    await expect(send()).rejects.toMatchObject({ code: 'EMESSAGE', responseCode: 554 });
    server.script = { onMail: () => 'hang up' };
    await expect(send()).rejects.toMatchObject({ code: 'ECONNECTION' });
    server.script = { onConnect: () => '421 Too busy' };
    await expect(send()).rejects.toMatchObject({ responseCode: 421 });
    expect(server.mails).toHaveLength(1);
  });

  it('goes away and comes back', async () => {
    await server.goAway();
    await expect(send()).rejects.toMatchObject({ code: 'ESOCKET' });
    await server.comeBack();
    await send();
    expect(server.mails).toHaveLength(1);
  });

  it('knows a password', async () => {
    await server.close();
    server = await startMailServer({ password: 'right' });
    await send({ auth: { user: 'u', pass: 'right' } });
    await expect(send({ auth: { user: 'u', pass: 'wrong' } })).rejects.toMatchObject({ code: 'EAUTH' });
    await expect(send()).rejects.toMatchObject({ responseCode: 530 });
  });
});
