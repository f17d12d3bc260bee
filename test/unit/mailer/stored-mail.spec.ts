import { Readable } from 'node:stream';
import type { Mail } from '../../../lib/mailer/mail';
import { storeMail, type StoringOptions } from '../../../lib/mailer/stored-mail';
import { InvalidMessageError } from '../../../lib/message/invalid-message.error';

const options: StoringOptions = {
  from: 'Claims <claims@example.com>',
  pluginFields: [],
  maxStoredBytes: 10_000,
};
const store = (mail: unknown, more: Partial<StoringOptions> = {}) =>
  JSON.parse(JSON.stringify(storeMail(mail as Mail, { ...options, ...more }))) as Record<string, unknown>;

function refusal(mail: unknown, more: Partial<StoringOptions> = {}): InvalidMessageError {
  try {
    storeMail(mail as Mail, { ...options, ...more });
  } catch (error) {
    if (error instanceof InvalidMessageError) return error;
    throw error;
  }
  throw new Error('It was not refused');
}

describe('A mail that is stored', () => {
  it('keeps what was given, and gets the module’s sender', () => {
    const mail = { to: 'Ann <ann@example.com>', subject: 'Your claim 4711', text: 'Received.\r\nThank you' };
    expect(store(mail)).toEqual({ ...mail, from: 'Claims <claims@example.com>' });
    expect(store({ ...mail, from: { name: 'Bob', address: 'bob@example.com' } }).from).toEqual({
      name: 'Bob',
      address: 'bob@example.com',
    });
  });

  it('has bytes as base64, in the form that nodemailer takes', () => {
    const bytes = Buffer.from([0, 255, 10]);
    const stored = store({
      to: 'a@example.com',
      html: bytes,
      attachments: [
        { filename: 'x.bin', content: new Uint8Array(bytes) },
        { filename: 'y.txt', content: 'text' },
        { path: '/reports/4711.pdf' },
        { href: 'https://example.com/4711.pdf', httpHeaders: { accept: 'application/pdf' } },
      ],
    });
    expect(stored.html).toEqual({ content: 'AP8K', encoding: 'base64' });
    expect(stored.attachments).toEqual([
      { filename: 'x.bin', content: 'AP8K', encoding: 'base64' },
      { filename: 'y.txt', content: 'text' },
      { path: '/reports/4711.pdf' },
      { href: 'https://example.com/4711.pdf', httpHeaders: { accept: 'application/pdf' } },
    ]);
  });

  it('does not change when its author changes the object later', () => {
    const mail = { to: ['a@example.com'], attachments: [{ filename: 'a', content: Buffer.from('a') }] };
    const stored = storeMail(mail, options);
    mail.to.push('b@example.com');
    mail.attachments[0]!.content.write('b');
    expect(stored).toMatchObject({ to: ['a@example.com'], attachments: [{ content: 'YQ==' }] });
  });

  it.each([
    ['ann@example.com'],
    ['Ann <ann@example.com>, bob@example.com'],
    ['"Ann, Claims" <ann@example.com>'],
    ['ann@example.com <ann@example.com>'],
    ['Team: ann@example.com, bob@example.com;'],
    ['ünï@exämple.com'],
    ['"a b"@example.com'],
    ['root@localhost'],
    ['ann@example.com (Ann)'],
    ['ann@[192.0.2.1]'],
    [['ann@example.com', { name: 'Bob, B.', address: 'bob@example.com' }]],
  ])('may go to %j', (to) => {
    expect(store({ to }).to).toEqual(to);
  });

  it.each([
    ['ann', 'mail.to'],
    ['ann@', 'mail.to'],
    ['@example.com', 'mail.to'],
    ['a@b@example.com', 'mail.to'],
    ['<>', 'mail.to'],
    ['ann@example.com bob@example.com', 'mail.to'],
    ['ann@exa mple.com, x', 'mail.to'],
    ['Ann ann@example.com', 'mail.to'],
    [`${'x'.repeat(250)}@example.com`, 'mail.to'],
    [42, 'mail.to'],
    [{ name: 'Ann' }, 'mail.to'],
    [{ address: 'Ann <ann@example.com>' }, 'mail.to.address'],
    [['bob@example.com', 'nobody'], 'mail.to[1]'],
    [null, 'mail.to'],
  ])('is refused for the recipient %j', (to, field) => {
    expect(refusal({ to }).field).toBe(field);
  });

  it.each([
    [{ subject: 'hello' }],
    [{ to: '' }],
    [{ to: [], cc: [] }],
    [{ to: 'undisclosed-recipients:;' }],
    [{ to: 'a@example.com', envelope: { from: 'b@example.com' } }],
  ])('is refused without a recipient: %j', (mail) => {
    expect(refusal(mail).message).toContain('no recipient');
  });

  it('may have its recipients in the envelope or in bcc alone', () => {
    store({ bcc: 'a@example.com' });
    store({ to: 'undisclosed-recipients:;', envelope: { from: 'b@example.com', to: 'a@example.com' } });
  });

  it('is refused without a sender', () => {
    expect(refusal({ to: 'a@example.com' }, { from: undefined }).message).toContain('no sender');
    expect(refusal({ to: 'a@example.com', from: 'a@x, b@y' }).message).toContain('exactly one');
  });

  const injected = 'x\r\nBcc: evil@example.com';
  it.each([
    ['mail.subject', { subject: injected }],
    ['mail.subject', { subject: 'x\nBcc: evil@example.com' }],
    ['mail.subject', { subject: 'x\0' }],
    ['mail.to', { to: `a@example.com${injected}` }],
    ['mail.to.name', { to: { name: injected, address: 'a@example.com' } }],
    ['mail.from', { from: `a@example.com${injected}` }],
    ['mail.replyTo', { replyTo: `a@example.com${injected}` }],
    ['mail.envelope.from', { envelope: { from: `a@example.com${injected}`, to: 'a@example.com' } }],
    ['mail.headers.X-A', { headers: { 'X-A': injected } }],
    ['mail.headers.X-A[0]', { headers: { 'X-A': [injected] } }],
    ['mail.headers.X-A.value', { headers: { 'X-A': { prepared: true, value: injected } } }],
    ['mail.headers[0].value', { headers: [{ key: 'X-A', value: injected }] }],
    [`mail.headers.X-A: y${injected}`, { headers: { [`X-A: y${injected}`]: 'z' } }],
    ['mail.messageId', { messageId: injected }],
    ['mail.inReplyTo', { inReplyTo: injected }],
    ['mail.references[0]', { references: [injected] }],
    ['mail.date', { date: injected }],
    ['mail.list.unsubscribe.url', { list: { unsubscribe: { url: injected } } }],
    ['mail.xMailer', { xMailer: injected }],
    ['mail.attachments[0].filename', { attachments: [{ filename: injected, content: 'x' }] }],
    ['mail.attachments[0].cid', { attachments: [{ cid: injected, content: 'x' }] }],
    ['mail.attachments[0].contentType', { attachments: [{ contentType: injected, content: 'x' }] }],
    ['mail.attachments[0].headers.X-A', { attachments: [{ headers: { 'X-A': injected }, content: 'x' }] }],
    ['mail.icalEvent.method', { icalEvent: { method: injected, content: 'x' } }],
    ['mail.dsn.id', { dsn: { id: injected } }],
  ])('is refused for a line break in %s', (field, mail) => {
    expect(refusal({ to: 'a@example.com', ...mail }).field).toBe(field);
  });

  it.each(['To', 'bcc', 'From', 'Message-ID', 'Subject', 'X-Outbox-Message-Id'])(
    'is refused for %s as a further header',
    (name) => {
      refusal({ to: 'a@example.com', headers: { [name]: 'x@example.com' } });
      refusal({ to: 'a@example.com', headers: [{ key: name, value: 'x@example.com' }] });
    },
  );

  it.each([
    [
      'a stream',
      { attachments: [{ filename: 'a', content: Readable.from(['x']) }] },
      'mail.attachments[0].content',
    ],
    ['a stream as text', { text: Readable.from(['x']) }, 'mail.text'],
    ['a promise', { html: Promise.resolve('x') }, 'mail.html'],
    ['a misspelt field', { subjct: 'x' }, 'mail.subjct'],
    [
      'a misspelt field of an attachment',
      { attachments: [{ filname: 'x', content: '' }] },
      'mail.attachments[0].filname',
    ],
    ['an attachment without content', { attachments: [{ filename: 'x' }] }, 'mail.attachments[0]'],
    ['two contents', { attachments: [{ path: 'x', content: 'x' }] }, 'mail.attachments[0]'],
    ['attachments that are no list', { attachments: { content: 'x' } }, 'mail.attachments'],
    ['a finished message', { raw: 'x' }, 'mail.raw'],
    ['a password', { auth: { user: 'x', pass: 'secret' } }, 'mail.auth'],
    ['a private key', { dkim: { privateKey: 'secret' } }, 'mail.dkim'],
    ['a signal', { signal: AbortSignal.abort() }, 'mail.signal'],
    ['half of a surrogate pair', { subject: '\ud83d' }, 'mail.subject'],
    ['a bad date', { date: new Date('x') }, 'mail.date'],
    ['an unknown priority', { priority: 'urgent' }, 'mail.priority'],
  ])('is refused for %s', (_, mail, field) => {
    const error = refusal({ to: 'a@example.com', ...mail });
    expect(error.field).toBe(field);
    expect(error.message).not.toContain('secret');
  });

  it.each([[undefined], [null], ['text'], [[]]])('is refused when it is %j', (mail) => {
    refusal(mail);
  });

  it('is refused when it is larger than allowed', () => {
    const error = refusal({ to: 'a@example.com', attachments: [{ content: Buffer.alloc(9_000) }] });
    expect(error.message).toContain('maxStoredBytes (10000)');
    expect(error.message).toContain('path or href');
  });

  it('may have the fields of plugins that the module names', () => {
    const mail = { to: 'a@example.com', template: 'welcome', context: { name: 'Ann', tags: ['a'] } };
    expect(store(mail, { pluginFields: ['template', 'context'] })).toMatchObject({ ...mail });
    expect(refusal(mail).field).toBe('mail.template');
    expect(
      refusal({ ...mail, context: { f: () => 1 } }, { pluginFields: ['template', 'context'] }).field,
    ).toBe('mail.context.f');
  });
});
