import { MailSender } from '../../../lib/mailer/mail-sender';
import { RateLimiter } from '../../../lib/mailer/rate-limiter';

const stored = { from: 'a@example.com', to: 'b@example.com, c@example.com', subject: 'News' };
const partly = {
  envelope: { from: 'a@example.com', to: [] },
  messageId: 'x',
  accepted: ['b@example.com'],
  rejected: ['c@example.com'],
  rejectedErrors: [
    Object.assign(new Error('x'), { recipient: 'c@example.com', response: '550 No', responseCode: 550 }),
  ],
};

function open(enqueue: () => Promise<string>) {
  const lines: string[] = [];
  const note = (line: string) => void lines.push(line);
  const onRefused = jest.fn();
  const transport = { send: jest.fn(async () => partly) };
  const limiter = new RateLimiter(Infinity);
  const logger = { log: note, warn: note, error: note };
  return {
    sender: new MailSender({ transport, limiter, enqueue, onRefused, logger }),
    lines,
    onRefused,
    transport,
  };
}

describe('Recipients that were refused while others were accepted', () => {
  it('are written with a key of the first message, tried again while the database is away', async () => {
    let failures = 2;
    const enqueue = jest.fn(async () => {
      if (failures-- > 0) throw new Error('the database is away');
      return 'm2';
    });
    const { sender, onRefused, transport } = open(enqueue);
    await sender.send(stored, { messageId: 'm1', signal: new AbortController().signal });
    expect(enqueue).toHaveBeenCalledTimes(3);
    expect(enqueue).toHaveBeenLastCalledWith(
      {
        ...stored,
        messageId: '<m1@example.com>',
        envelope: { from: 'a@example.com', to: ['c@example.com'] },
      },
      'mailer-refused:m1',
      false,
    );
    expect(onRefused).toHaveBeenCalledWith(expect.objectContaining({ messageId: 'm1', followUpId: 'm2' }));
    expect(transport.send).toHaveBeenCalledTimes(1);
  });

  it('hand the whole mail back when a shutdown ends the tries: rather sent again than forgotten', async () => {
    const controller = new AbortController();
    const { sender, onRefused, lines } = open(async () => {
      controller.abort(new Error('shutting down'));
      throw new Error('the database is away');
    });
    const sending = sender.send(stored, { messageId: 'm1', signal: controller.signal });
    await expect(sending).rejects.toThrow('shutting down');
    expect(lines.join()).toContain('c@example.com (550 No)');
    expect(onRefused).not.toHaveBeenCalled();
  });
});
