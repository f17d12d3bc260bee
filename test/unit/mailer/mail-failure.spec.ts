import { isUnreachable, judge } from '../../../lib/mailer/mail-failure';

const envelope = (responseCode: number | undefined, more: object = {}) => ({
  code: 'EENVELOPE',
  responseCode,
  ...more,
});

describe('What a failed attempt says about a mail', () => {
  it.each([
    ['550 for its recipients', envelope(550)],
    ['552 for its content', { code: 'EMESSAGE', responseCode: 552 }],
    ['554 for its content', { code: 'EMESSAGE', responseCode: 554 }],
    ['an address that nodemailer refuses', envelope(undefined)],
    ['a size that the server has announced', { code: 'EMESSAGE', command: 'MAIL FROM' }],
    ['a file that the transport must not read', { code: 'EFILEACCESS' }],
    ['SES: MessageRejected', { code: 'ESES', name: 'MessageRejected', $fault: 'client' }],
    ['SES: BadRequestException', { code: 'ESES', name: 'BadRequestException', $fault: 'client' }],
  ])('permanent: %s', (_, error) => expect(judge(error)).toBe('permanent'));

  it.each([
    ['450 greylisted', envelope(450)],
    ['451 for its content', { code: 'EMESSAGE', responseCode: 451 }],
    ['452 mailbox full', envelope(452)],
    ['503, which is about the session', envelope(503)],
    [
      'several recipients, of which one is refused only for now',
      envelope(550, {
        rejectedErrors: [{ responseCode: 550 }, { responseCode: 450 }, { responseCode: 550 }],
      }),
    ],
    ['a file that is not there', Object.assign(new Error('ENOENT: no such file'), { code: 'ENOENT' })],
    ['a stream that broke', { code: 'ESTREAM' }],
    ['a plugin that threw', new TypeError('x is undefined')],
    ['nothing that could be read', undefined],
  ])('temporary: %s', (_, error) => expect(judge(error)).toBe('temporary'));

  it.each([
    ['535 for the login', { code: 'EAUTH', responseCode: 535 }],
    ['no credentials', { code: 'ENOAUTH' }],
    ['an OAuth token that is not renewed', { code: 'EOAUTH2' }],
    ['530 for the sender, since nobody has logged in', envelope(530, { command: 'MAIL FROM' })],
    ['454 for the login', envelope(454)],
    ['a proxy', { code: 'EPROXY' }],
  ])('no mail can be sent: %s', (_, error) => expect(judge(error)).toBe('transport'));

  it.each([
    ['a refused connection', { code: 'ESOCKET', originalCode: 'ECONNREFUSED' }],
    ['a lost connection', { code: 'ECONNECTION' }],
    ['a timeout', { code: 'ETIMEDOUT' }],
    ['an unknown host', { code: 'EDNS' }],
    ['TLS', { code: 'ETLS' }],
    ['554 instead of a greeting', { code: 'EPROTOCOL', responseCode: 554 }],
    ['421 for a recipient', envelope(421)],
    ['HTTP: refused', { code: 'ECONNREFUSED' }],
    ['SES: throttled', { code: 'ESES', name: 'TooManyRequestsException', $fault: 'client' }],
    ['SES: expired credentials', { code: 'ESES', name: 'ExpiredTokenException', $fault: 'client' }],
    ['SES: its own fault', { name: 'InternalServiceErrorException', $fault: 'server' }],
  ])('to be found out: %s', (_, error) => expect(judge(error)).toBe('unclear'));

  it('tells whether a server was reached', () => {
    expect(isUnreachable({ code: 'ESOCKET', originalCode: 'ECONNREFUSED' })).toBe(true);
    expect(isUnreachable({ code: 'ENOTFOUND' })).toBe(true);
    expect(isUnreachable({ code: 'ESOCKET', syscall: 'connect' })).toBe(true);
    expect(isUnreachable({ code: 'ECONNECTION' })).toBe(false);
    expect(isUnreachable(undefined)).toBe(false);
  });
});
