import type { AppProcess } from '../../support/app-process';
import { waitFor } from '../../support/wait-for';
import { InboxSetup, logged, settled } from '../inbox/inbox-setup';

const APP = '../../inbox-edges/fixtures/batch-app';

interface Seen {
  readonly ids: string[];
  readonly numbers: number[];
  readonly headers: number[];
  readonly context: string[];
}

describe('batches', () => {
  let setup: InboxSetup;
  beforeAll(async () => (setup = await InboxSetup.open()));
  afterEach(async () => {
    await setup.stopApps();
    await setup.broker.drain(setup.deadLetters);
    await setup.database.query('DELETE FROM inbox_message; DELETE FROM effect');
  });
  afterAll(() => setup.close());

  /** Into a queue that nobody consumes yet, so that they come as one batch. */
  const fill = async (queue: string, items: [id: string | undefined, does?: string][]) => {
    await setup.broker.assertQueue(queue, {
      deadLetterExchange: '',
      deadLetterRoutingKey: setup.deadLetters,
    });
    for (const [n, [messageId, does]] of items.entries()) {
      const body = does?.startsWith('body ') ? Buffer.from(does.slice(5)) : { n, does };
      const id = messageId === undefined ? {} : { messageId };
      await setup.broker.sendToQueue(queue, body, { headers: { n }, ...id });
    }
  };
  const batches = (app: AppProcess) => app.events<Seen>('batch');
  const effects = async () =>
    Object.fromEntries(
      Object.entries(await setup.effects()).map(([key, count]) => [key.replace('batch ', ''), count]),
    );
  const once = (...ids: string[]) => Object.fromEntries(ids.map((id) => [id, 1]));

  it('G5: only new messages reach the handler, with payloads, raw messages and headers in step; copies in the batch count', async () => {
    const queue = setup.broker.queue('new-ones');
    await setup.database.query(
      "INSERT INTO inbox_message (consumer, message_id, status) VALUES ('batch', 'done', 'done'), ('batch', 'seen', 'seen')",
    );
    await fill(queue, [['a'], ['done'], ['b'], ['a'], ['seen'], ['c'], ['b'], ['a']]);
    const app = await setup.started(APP, { queue });
    await settled(8, app);

    expect(batches(app)).toEqual([
      {
        ids: ['a', 'b', 'seen', 'c'],
        numbers: [0, 2, 4, 5],
        headers: [0, 2, 4, 5],
        context: ['a', 'b', 'seen', 'c'],
      },
    ]);
    expect(await effects()).toEqual(once('a', 'b', 'seen', 'c'));
    expect(app.events('ack')).toHaveLength(8);
    expect(new Set((await setup.rows()).map(({ status }) => status))).toEqual(new Set(['done']));
    expect(logged(app, 'error')).toEqual([]);
  });

  it('a batch of duplicates does not call the handler', async () => {
    const queue = setup.broker.queue('all-old');
    const app = await setup.started(APP, { queue });
    for (let round = 1; round <= 2; round++) {
      await fill(queue, [['x'], ['y'], ['z']]);
      await settled(round * 3, app);
    }
    expect(batches(app).flatMap(({ ids }) => ids)).toEqual(['x', 'y', 'z']);
    expect(app.events('ack')).toHaveLength(6);
  });

  it('decorated parameters, pipes and interceptors of the method see the same messages in step', async () => {
    const queue = setup.broker.queue('decorated');
    await fill(queue, [['a'], ['a'], ['b'], ['c']]);
    const app = await setup.started(APP, { queue, variant: 'decorated' });
    await settled(4, app);
    expect(batches(app)).toEqual([
      { ids: ['a', 'b', 'c'], numbers: [0, 4, 6], headers: [0, 2, 3], context: ['a', 'b', 'c'] },
    ]);
    expect(app.events('inside').at(-1)).toEqual({ ids: ['a', 'b', 'c'], numbers: [0, 2, 3], headers: 3 });
    expect(app.events('name')).toEqual(['onMessages']);
  });

  it.each(['retry', 'reject'] as const)(
    "G11: one that fails does not hold the others, and is settled on its own (onFailure '%s')",
    async (onFailure) => {
      const queue = setup.broker.queue(`poison-${onFailure}`);
      await fill(queue, [['a'], ['poison', 'fail'], ['b'], ['c']]);
      // A filter that answers everything must not get it acked.
      const app = await setup.started(APP, {
        queue,
        variant: 'filter',
        idempotent: { onFailure },
        inbox: { backoff: { initialDelay: 100 }, maxAttempts: 3 },
      });
      await settled(4, app);
      expect(await effects()).toEqual(once('a', 'b', 'c'));
      expect(batches(app)[0]?.ids).toEqual(['a', 'poison', 'b', 'c']);
      if (onFailure === 'reject') {
        const letter = await waitFor('the dead letter', () => setup.broker.get(setup.deadLetters));
        expect(letter.properties.messageId).toBe('poison');
        expect(app.events('nack')).toHaveLength(1);
        return;
      }
      expect(app.events('ack')).toHaveLength(4);
      // From the inbox table it comes alone, in arrays of one.
      await waitFor('the end', async () => (await setup.status('poison')) === 'dead');
      expect(batches(app).at(-1)).toMatchObject({ ids: ['poison'], numbers: [1], headers: [1] });
      expect((await setup.rows('poison'))[0]?.last_error).toContain('number 1 fails');
    },
  );

  it('a Nack of the handler is asked for again, message by message', async () => {
    const queue = setup.broker.queue('nack');
    await fill(queue, [['a'], ['b', 'nack'], ['c']]);
    const app = await setup.started(APP, { queue });
    await settled(3, app);
    expect(await effects()).toEqual(once('a', 'c'));
    const letter = await waitFor('the dead letter', () => setup.broker.get(setup.deadLetters));
    expect(letter.properties.messageId).toBe('b');
  });

  it('C12, C19: bodies that cannot be decoded and missing ids do not sink the batch', async () => {
    const queue = setup.broker.queue('bad');
    await fill(queue, [['a'], ['broken', 'body {'], [undefined], ['  '], ['b'], ['empty', 'body ']]);
    const app = await setup.started(APP, { queue });
    await settled(6, app);
    expect(await effects()).toEqual({ ...once('a', 'b', 'empty') });
    expect(batches(app)).toMatchObject([{ ids: ['a', 'b', 'empty'] }]);
    expect((await setup.rows('broken'))[0]).toMatchObject({ status: 'dead', body: Buffer.from('{') });
    const anonymous = (await setup.rows()).filter(({ last_error }) => last_error?.includes('has no id'));
    expect(anonymous.map(({ status }) => status)).toEqual(['dead', 'dead']);
    expect(logged(app, 'error').filter((text) => text.includes('has no id'))).toHaveLength(2);
  });

  it('a serialization failure runs the whole batch again, with what came from the broker', async () => {
    const queue = setup.broker.queue('conflict');
    await fill(queue, [['a'], ['b', 'conflict'], ['c']]);
    const app = await setup.started(APP, { queue });
    await settled(3, app);
    expect(batches(app).map(({ ids, numbers }) => [ids, numbers])).toEqual(
      Array.from({ length: 2 }, () => [
        ['a', 'b', 'c'],
        [0, 1, 2],
      ]),
    );
    expect(await effects()).toEqual(once('a', 'b', 'c'));
  });

  it('G6: SIGKILL after the commit: the batch comes again, is recognised, and has its effect once', async () => {
    const queue = setup.broker.queue('killed');
    await fill(queue, [['a'], ['b'], ['c']]);
    const first = await setup.started(APP, { queue }, { armed: ['after commit'] });
    expect((await first.exited).signal).toBe('SIGKILL');
    const second = await setup.started(APP, { queue });
    await settled(3, second);
    expect(await effects()).toEqual(once('a', 'b', 'c'));
    expect(batches(second)).toEqual([]);
  });

  it('G11: a message that kills the process ends dead, and its neighbours in the batch are handled', async () => {
    const queue = setup.broker.queue('killer');
    await fill(queue, [['a'], ['killer', 'die'], ['b']]);
    for (let round = 0; round < 5 && (await setup.status('killer')) !== 'dead'; round++) {
      const app = await setup.started(APP, { queue, inbox: { maxAttempts: 2 } });
      await Promise.race([app.exited, settled(3, app).catch(() => undefined)]);
    }
    await waitFor('the end', async () => (await setup.status('killer')) === 'dead');
    expect(await effects()).toEqual(once('a', 'b'));
    expect(await setup.broker.ready(queue)).toBe(0);
  });

  it('C21: the channel closes while a batch is handled: the process lives, goes on, and ends when it is asked to', async () => {
    const queue = setup.broker.queue('channel');
    await fill(queue, [['a', 'wait'], ['b']]);
    const app = await setup.started(APP, { queue });
    await app.waitFor('waiting');
    await app.request('close channel', undefined);
    await app.request('open', undefined);
    await waitFor('the commit', async () => Object.keys(await effects()).length === 2);
    expect(await effects()).toEqual(once('a', 'b'));
    await app.request('noop', undefined);
    await app.request('close', undefined);
    expect((await app.exited).code).toBe(0);
  });

  it('two processes with the same messages in opposite order: each has its effect once, nothing deadlocks', async () => {
    const queues = [setup.broker.queue('left'), setup.broker.queue('right')];
    const ids = Array.from({ length: 10 }, (_, n) => `both-${n}`);
    await fill(
      queues[0]!,
      ids.map((id) => [id]),
    );
    await fill(
      queues[1]!,
      [...ids].reverse().map((id) => [id]),
    );
    const apps = await Promise.all(queues.map((queue) => setup.started(APP, { queue })));
    await settled(20, ...apps);
    expect(await effects()).toEqual(once(...ids));
    expect(apps.flatMap((app) => [...logged(app, 'warn'), ...logged(app, 'error')])).toEqual([]);
  });

  it('inside a transaction of the application: one commit for all, and a failure rolls back both', async () => {
    const queue = setup.broker.queue('around');
    await fill(queue, [['a'], ['b'], ['a']]);
    const app = await setup.started(APP, {
      queue,
      variant: 'transaction-around',
      idempotent: { onFailure: 'reject' },
    });
    await settled(3, app);
    expect(await effects()).toEqual(once('a', 'b'));
    await fill(queue, [['c'], ['d', 'fail']]);
    await settled(5, app);
    expect(await effects()).toEqual(once('a', 'b'));
    await waitFor('both dead letters', async () => (await setup.broker.ready(setup.deadLetters)) === 2);
  });
});
