import { setImmediate as turn } from 'node:timers/promises';
import { MessageKeeper } from '../../../lib/inbox/message-keeper';
import type { KeptMessage } from '../../../lib/persistence/inbox-message';
import type { StoredMessage } from '../../../lib/persistence/kept-inbox-statements';

const message = (messageId: string): KeptMessage => ({
  consumer: 'c',
  messageId,
  exchange: '',
  routingKey: '',
  redelivered: false,
  body: Buffer.of(),
  headers: null,
  properties: null,
  orderingKey: null,
});

describe('storing messages together', () => {
  const statements: { ids: string[]; end: (stored?: readonly string[], error?: Error) => void }[] = [];
  const keeper = () =>
    new MessageKeeper(
      {
        storeMessages: (messages) =>
          new Promise<StoredMessage[]>((resolve, reject) => {
            const ids = messages.map(({ messageId }) => messageId);
            const row = (messageId: string) => ({
              consumer: 'c',
              messageId,
              seq: '1',
              attempts: 0,
              lastError: null,
            });
            const end = (stored: readonly string[] = ids, error?: Error) =>
              error ? reject(error) : resolve(stored.map(row));
            statements.push({ ids, end });
          }),
        keep: () => Promise.resolve({ kind: 'open', delay: 5 }),
      },
      { room: () => Promise.resolve() },
      () => ({ notify: () => undefined, storing: (_, store) => store() }),
    );
  beforeEach(() => {
    statements.length = 0;
  });

  it('the first goes at once; those that come meanwhile share the next statement, in their order', async () => {
    const keep = keeper();
    const results = ['a', 'b', 'c'].map((id) => keep.storeMessage(message(id)));
    await turn();
    expect(statements.map(({ ids }) => ids)).toEqual([['a']]);
    statements[0]?.end();
    await turn();
    expect(statements.map(({ ids }) => ids)).toEqual([['a'], ['b', 'c']]);
    statements[1]?.end();
    expect(await Promise.all(results)).toEqual([true, true, true]);
    const later = keep.storeMessage(message('d'));
    await turn();
    statements[2]?.end();
    expect(await later).toBe(true);
  });

  it('copies are in one statement once; a duplicate is told so', async () => {
    const keep = keeper();
    const results = ['a', 'b', 'b', 'c'].map((id) => keep.storeMessage(message(id)));
    await turn();
    statements[0]?.end([]);
    await turn();
    expect(statements[1]?.ids).toEqual(['b', 'c']);
    statements[1]?.end();
    expect(await Promise.all(results)).toEqual([false, true, false, true]);
  });

  it('a failure is told to all who shared it, and the next ones go on', async () => {
    const keep = keeper();
    const first = keep.storeMessage(message('a'));
    const failing = ['b', 'c'].map((id) => keep.storeMessage(message(id)));
    await turn();
    statements[0]?.end();
    await first;
    await turn();
    statements[1]?.end([], new Error('away'));
    await expect(Promise.all(failing)).rejects.toThrow('away');
    const again = keep.storeMessage(message('b'));
    await turn();
    statements[2]?.end();
    expect(await again).toBe(true);
  });
});
