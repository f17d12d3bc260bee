import { messageIdHeader } from '../../../lib/mailer/mail-headers';

describe('The Message-ID of an outbox message', () => {
  const id = '0198c5a2-7b1e-7f00-8000-000000000001';

  it('is its id, at the sender’s domain', () => {
    expect(messageIdHeader(id, 'claims@example.com')).toBe(`<${id}@example.com>`);
  });

  it('is the same each time', () => {
    expect(messageIdHeader('an id with blanks', 'a@example.com')).toBe(
      messageIdHeader('an id with blanks', 'a@example.com'),
    );
  });

  it.each(['an id with blanks', 'ä', 'a>b', 'a@b', 'x'.repeat(200)])('is well-formed for %j', (odd) => {
    expect(messageIdHeader(odd, 'a@example.com')).toMatch(/^<[0-9a-f]{64}@example\.com>$/);
  });

  it('differs for ids that differ', () => {
    expect(messageIdHeader('a b', 'a@example.com')).not.toBe(messageIdHeader('a  b', 'a@example.com'));
  });

  it('is ASCII, whatever the domain', () => {
    expect(messageIdHeader(id, 'a@exämple.com')).toBe(`<${id}@localhost>`);
  });
});
