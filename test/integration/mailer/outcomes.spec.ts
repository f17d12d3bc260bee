import type { RefusedRecipients } from '../../../lib/mailer';
import { startMailServer } from '../../support/mail-server';
import { waitFor } from '../../support/wait-for';
import { MailSetup } from './mail-setup';

let setup: MailSetup;
beforeAll(async () => (setup = await MailSetup.open()));
afterEach(() => setup.reset());
afterAll(() => setup.close());

const to = (name: string) => ({ to: `${name}@example.com`, subject: name, text: name });

describe('a mail that is refused', () => {
  it('for ever (5xx) is dead after one attempt, with the server’s words', async () => {
    let asked = 0;
    setup.server.script = { onRecipient: () => (asked++, '550 5.1.1 No such user') };
    const app = await setup.start();
    const id = await app.send(to('nobody'));
    const row = await setup.becomes('dead', id);
    expect(row).toMatchObject({ attempts: 1 });
    expect(row.last_error).toContain('550 5.1.1 No such user');
    expect(asked).toBe(1);
  });

  it('for its content (5xx) is dead after one attempt', async () => {
    setup.server.script = { onMail: () => '554 5.7.1 Spam' };
    const app = await setup.start();
    const row = await setup.becomes('dead', await app.send(to('ann')));
    expect(row).toMatchObject({ attempts: 1 });
    expect(row.last_error).toContain('554 5.7.1 Spam');
  });

  it('for now (4xx) is tried again, uses up attempts, and arrives once', async () => {
    let refusals = 0;
    setup.server.script = { onRecipient: () => (refusals++ < 3 ? '450 4.2.0 Greylisted' : undefined) };
    const app = await setup.start();
    const id = await app.send(to('ann'));
    expect(await setup.becomes('sent', id)).toMatchObject({ attempts: 3 });
    expect(setup.arrivedFor()).toEqual(['ann@example.com']);
  });

  it('for now (4xx) is dead after its last attempt', async () => {
    setup.server.script = { onMail: () => '451 4.3.0 Try again later' };
    const app = await setup.start({ mailer: { maxAttempts: 3 } });
    const row = await setup.becomes('dead', await app.send(to('ann')));
    expect(row).toMatchObject({ attempts: 3 });
    expect(row.last_error).toContain('451 4.3.0 Try again later');
  });

  it('has a retry policy of its own, where it is given one', async () => {
    setup.server.script = { onMail: () => '451 4.3.0 Try again later' };
    const app = await setup.start();
    const row = await setup.becomes('dead', await app.send(to('ann'), { retry: { maxAttempts: 1 } }));
    expect(row).toMatchObject({ attempts: 1 });
  });

  it('holds up no other', async () => {
    setup.server.script = { onRecipient: (address) => (address.startsWith('bad') ? '450 Later' : undefined) };
    const app = await setup.start({ mailer: { concurrency: 1, backoff: { initialDelay: '1h' } } });
    const bad = await app.send(to('bad'));
    const good = await app.send(to('good'));
    await setup.becomes('sent', good);
    expect(await setup.row(bad)).toMatchObject({ status: 'scheduled', attempts: 1 });
  });
});

describe('a mail that some recipients were refused for', () => {
  const mail = {
    to: ['ann@example.com', 'gone@example.com'],
    cc: 'bob@example.com',
    bcc: 'secret@example.com',
    subject: 'News',
    text: 'x',
  };

  it('G11: is sent; who was refused for ever is kept as a dead message, and nobody gets it twice', async () => {
    setup.server.script = {
      onRecipient: (address) => (address.startsWith('gone') ? '550 5.1.1 No such user' : undefined),
    };
    const told: RefusedRecipients[] = [];
    const app = await setup.start({ mailer: { onRefused: (refusal) => void told.push(refusal) } });
    const id = await app.send(mail);
    await setup.becomes('sent', id);
    const [followUp] = (await setup.rows()).filter(({ message_id }) => message_id !== id);
    const row = await setup.becomes('dead', followUp!.message_id);
    expect(row.last_error).toContain('550 5.1.1 No such user');
    const [{ body } = { body: '' }] = await setup.local.database.query<{ body: string }>(
      'SELECT body FROM outbox_message WHERE message_id = $1',
      [followUp!.message_id],
    );
    expect(JSON.parse(body)).toMatchObject({
      subject: 'News',
      envelope: { from: 'claims@example.com', to: ['gone@example.com'] },
    });
    expect(setup.arrivedFor()).toEqual(['ann@example.com', 'bob@example.com', 'secret@example.com']);
    expect(setup.server.mails).toHaveLength(1);
    expect(setup.server.mails[0]!.raw).not.toContain('secret@');
    expect(told).toEqual([
      {
        messageId: id,
        followUpId: followUp!.message_id,
        subject: 'News',
        recipients: [
          {
            address: 'gone@example.com',
            response: expect.stringContaining('550') as string,
            temporary: false,
          },
        ],
      },
    ]);
  });

  it('G11: goes to those who were refused for now when they are not any more, and to nobody else again', async () => {
    let greylisted = 2;
    setup.server.script = {
      onRecipient: (address) =>
        address.startsWith('gone') && greylisted-- > 0 ? '450 4.2.0 Greylisted' : undefined,
    };
    const app = await setup.start();
    const id = await app.send(mail);
    await setup.becomes('sent', id);
    await waitFor('all mails to be sent', async () =>
      (await setup.rows()).every(({ status }) => status === 'sent'),
    );
    expect(setup.arrivedFor()).toEqual([
      'ann@example.com',
      'bob@example.com',
      'gone@example.com',
      'secret@example.com',
    ]);
    const [first, second] = setup.server.mails;
    expect(second!.to).toEqual(['gone@example.com']);
    expect(second!.headers['message-id']).toBe(first!.headers['message-id']);
    expect(second!.headers.to).toBe(first!.headers.to);
  });

  it('is as a mail that nobody was refused for, when onRefused throws', async () => {
    setup.server.script = { onRecipient: (address) => (address.startsWith('gone') ? '550 No' : undefined) };
    const onRefused = jest.fn(() => Promise.reject(new Error('no')));
    const app = await setup.start({ mailer: { onRefused } });
    await setup.becomes('sent', await app.send(mail));
    expect(onRefused).toHaveBeenCalledTimes(1);
    expect(setup.server.mails).toHaveLength(1);
  });
});

describe('a mail server in trouble', () => {
  it('G4: that is away uses up no attempts and kills no mail; all arrive once when it is back', async () => {
    let connections = 0;
    const getSocket = (_: unknown, callback: (error: null, socket: false) => void) => {
      connections++;
      callback(null, false);
    };
    const transport = { host: '127.0.0.1', port: setup.server.port, getSocket };
    const app = await setup.start({ mailer: { maxAttempts: 1, transport } });
    await setup.server.goAway();
    const ids = [];
    for (let i = 0; i < 20; i++) ids.push(await app.send(to(`user${i}`)));
    await waitFor('more attempts than are allowed', () => connections >= 20);
    for (const row of await setup.rows()) expect(row).toMatchObject({ status: 'ready', attempts: 0 });
    await setup.server.comeBack();
    for (const id of ids) await setup.becomes('sent', id);
    expect(setup.arrivedFor()).toEqual(ids.map((_, i) => `user${i}@example.com`).sort());
  });

  it('G4: that refuses the login uses up no attempts', async () => {
    const server = await startMailServer({ password: 'changed' });
    try {
      const app = await setup.start({
        mailer: {
          transport: { host: '127.0.0.1', port: server.port, auth: { user: 'u', pass: 'right' } },
          maxAttempts: 1,
        },
      });
      const id = await app.send(to('ann'));
      await waitFor('a login', () => server.connections > 1);
      expect(await setup.row(id)).toMatchObject({ status: 'ready', attempts: 0 });
      server.script = { password: 'right' };
      await setup.becomes('sent', id);
      expect(server.mails).toHaveLength(1);
    } finally {
      await server.close();
    }
  });

  it('G4: that demands a login which nobody has configured uses up no attempts', async () => {
    let asked = 0;
    setup.server.script = { onSender: () => (asked++, '530 5.7.0 Authentication required') };
    const app = await setup.start({ mailer: { maxAttempts: 1 } });
    const id = await app.send(to('ann'));
    await waitFor('more attempts than are allowed', () => asked >= 3);
    expect(await setup.row(id)).toMatchObject({ status: 'ready', attempts: 0 });
    setup.server.script = {};
    await setup.becomes('sent', id);
  });

  it('that hangs up because of one mail lets the others through, and the one dies after its attempts', async () => {
    setup.server.script = { onMail: ({ headers }) => (headers.subject === 'poison' ? 'hang up' : undefined) };
    const app = await setup.start({ mailer: { maxAttempts: 3, concurrency: 1 } });
    const poison = await app.send(to('poison'));
    const good = await app.send(to('good'));
    await setup.becomes('sent', good);
    expect(await setup.becomes('dead', poison)).toMatchObject({ attempts: 3 });
    expect(setup.arrivedFor()).toEqual(['good@example.com']);
  });

  it('that does not answer is given up after the time limit', async () => {
    let hangs = true;
    setup.server.script = { onMail: () => (hangs ? new Promise(() => undefined) : undefined) };
    const app = await setup.start({ mailer: { sendTimeout: 500 } });
    const id = await app.send(to('ann'));
    await waitFor('a failed attempt', async () => (await setup.row(id)).attempts > 0);
    hangs = false;
    await setup.becomes('sent', id);
    expect(setup.arrivedFor()).toEqual(['ann@example.com']);
  });
});

describe('a mail that was changed in the table', () => {
  it.each([
    ['is no object', '42'],
    ['has no sender', '{"to":"a@example.com"}'],
    ['is no JSON', '{'],
  ])('is dead with an error when it %s, and its neighbours are sent', async (_, body) => {
    const app = await setup.start({ outbox: { dispatch: 'off' } });
    const bad = await app.send(to('bad'));
    const good = await app.send(to('good'));
    await setup.local.database.query('UPDATE outbox_message SET body = $2 WHERE message_id = $1', [
      bad,
      body,
    ]);
    await app.app.dispatcher.runOnce();
    await setup.becomes('sent', good);
    expect((await setup.becomes('dead', bad)).last_error).not.toBe('');
    expect(setup.arrivedFor()).toEqual(['good@example.com']);
  });
});
