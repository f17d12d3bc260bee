import { DeadLetterAlarm, type DeadMessage, type OnDead } from '../../../lib/dead-letters/dead-letter-alarm';

describe('onDead', () => {
  const message: Omit<DeadMessage, 'dataSource'> = {
    ...{ box: 'outbox', messageId: 'm', exchange: 'e', routingKey: 'r', attempts: 10, error: 'NO_ROUTE' },
  };
  let lines: string[];
  const alarm = (onDead: OnDead | undefined) =>
    new DeadLetterAlarm({
      dataSource: 'billing',
      onDead,
      logger: { error: (line: string) => void lines.push(line) },
    });
  beforeEach(() => (lines = []));

  it('gets the message and the name of its data source', async () => {
    const got: DeadMessage[] = [];
    alarm((dead) => void got.push(dead)).raise(message);
    expect(got).toEqual([{ ...message, dataSource: 'billing' }]);
  });

  it.each<[string, OnDead]>([
    [
      'throws',
      () => {
        throw new Error('no pager');
      },
    ],
    ['rejects', () => Promise.reject(new Error('no pager'))],
    [
      'throws what has no text',
      () => {
        throw Object.create(null);
      },
    ],
  ])('may fail: one that %s is only logged', async (_, onDead) => {
    const failing = alarm(onDead);
    failing.raise(message);
    await failing.drain(1_000);
    if (!_.includes('no text'))
      expect(lines).toEqual([expect.stringMatching(/onDead failed for message m .*no pager/s)]);
  });

  it('is waited for at the end, but not for ever', async () => {
    let finish!: () => void;
    const slow = alarm(() => new Promise<void>((resolve) => (finish = resolve)));
    slow.raise(message);
    await slow.drain(1);
    const drained = slow.drain(60_000);
    finish();
    await drained;
    alarm(undefined).raise(message);
  });
});
