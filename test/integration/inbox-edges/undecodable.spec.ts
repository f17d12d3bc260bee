import { gzipSync } from 'node:zlib';
import { waitFor } from '../../support/wait-for';
import { InboxSetup, logged, settled } from '../inbox/inbox-setup';

const APP = '../../inbox-edges/fixtures/decoding-app';

describe('undecodable bodies', () => {
  let setup: InboxSetup;
  beforeAll(async () => (setup = await InboxSetup.open()));
  afterEach(async () => {
    await setup.stopApps();
    await setup.broker.drain(setup.deadLetters);
    await setup.database.query('DELETE FROM inbox_message');
  });
  afterAll(() => setup.close());

  const bad: Record<string, Buffer> = {
    'bad-json': Buffer.from('not json'),
    'bad-cut': Buffer.from('{"a":"x'),
    'bad-bytes': Buffer.from([0xff, 0xfe]),
    'bad-gzip': gzipSync('{"a":1}'),
    'bad-latin1': Buffer.from('{"city":"Köln"}', 'latin1'),
    'bad-bom': Buffer.from('\ufeff{"a":1}'),
  };
  const send = (queue: string, messageId: string | undefined, body: unknown) =>
    setup.broker.sendToQueue(queue, body, messageId === undefined ? {} : { messageId });

  it('C19, G11: each is kept once with its bytes and the reason, acked, and the good ones behind them are handled (prefetch 1)', async () => {
    const queue = setup.broker.queue('c19');
    await setup.broker.assertQueue(queue, {
      deadLetterExchange: '',
      deadLetterRoutingKey: setup.deadLetters,
    });
    for (const [messageId, body] of Object.entries(bad)) await send(queue, messageId, body);
    await send(queue, 'empty', Buffer.alloc(0));
    for (let n = 0; n < 10; n++) await send(queue, `good-${n}`, { n });
    const app = await setup.started(APP, { queue, prefetch: 1 });
    await settled(17, app);

    const dead = (await setup.rows()).filter(({ status }) => status === 'dead');
    expect(
      Object.fromEntries(dead.map(({ message_id, body }) => [message_id, body?.toString('hex')])),
    ).toEqual(
      Object.fromEntries(Object.entries(bad).map(([messageId, body]) => [messageId, body.toString('hex')])),
    );
    for (const { last_error } of dead) {
      expect(last_error).toMatch(/^UndecodableBodyError: The body of \d+ bytes cannot be decoded: /);
    }
    expect(app.events('delivery')).toHaveLength(17);
    expect(app.events('nack')).toEqual([]);
    const got = app.events<{ messageId: string; payload: unknown }>('got');
    expect(got.map(({ messageId }) => messageId)).toEqual([
      'empty',
      ...Array.from({ length: 10 }, (_, n) => `good-${n}`),
    ]);
    expect(got[0]?.payload).toBe('undefined');
    for (let n = 0; n < 10; n++) expect(await setup.effectCount(`good-${n}`)).toBe(1);
    expect(logged(app, 'error').filter((text) => text.includes('is dead, and kept'))).toHaveLength(6);
  });

  it('C46: an empty body is an undefined payload, exactly once; null is null', async () => {
    const queue = setup.broker.queue('empty');
    const app = await setup.started(APP, { queue, prefetch: 1 });
    for (let copy = 0; copy < 2; copy++) {
      await send(queue, 'nothing', Buffer.alloc(0));
      await send(queue, 'null', Buffer.from('null'));
    }
    await settled(4, app);
    expect(app.events<{ payload: unknown }>('got').map(({ payload }) => payload)).toEqual([
      'undefined',
      null,
    ]);
    expect(await setup.effectCount('nothing')).toBe(1);
  });

  it('C45: U+0000, lone surrogates and emoji in JSON are no fault of the body', async () => {
    const queue = setup.broker.queue('c45');
    const app = await setup.started(APP, { queue, prefetch: 1 });
    const texts = ['a\u0000b', '\ud800', '👩‍👩‍👧‍👦 𝒳', 'größe.é'];
    for (const [n, text] of texts.entries()) await send(queue, `c45-${n}`, { text });
    await settled(4, app);
    expect(app.events<{ payload: unknown }>('got').map(({ payload }) => payload)).toEqual(
      texts.map((text) => ({ text })),
    );
  });

  it('one without an id is kept by its content', async () => {
    const queue = setup.broker.queue('anonymous');
    const app = await setup.started(APP, { queue, prefetch: 1 });
    await send(queue, undefined, Buffer.from('not json'));
    await send(queue, undefined, Buffer.from('not json'));
    await send(queue, undefined, Buffer.from('not json either'));
    await settled(3, app);
    const rows = await setup.rows();
    expect(rows.map(({ status, body }) => `${status} ${body?.toString()}`).sort()).toEqual([
      'dead not json',
      'dead not json either',
    ]);
    expect(rows[0]?.message_id).toMatch(/^sha256:/);
  });

  it('G7: one whose id is done changes nothing', async () => {
    const queue = setup.broker.queue('done');
    const app = await setup.started(APP, { queue, prefetch: 1 });
    await send(queue, 'done', { a: 1 });
    await settled(1, app);
    const before = await setup.rows('done');
    await send(queue, 'done', Buffer.from('not json'));
    await settled(2, app);
    expect(await setup.rows('done')).toEqual(before);
    expect(app.events('ack')).toHaveLength(2);
  });

  it("an application's own deserializer that throws", async () => {
    const queue = setup.broker.queue('strict');
    const app = await setup.started(APP, { queue, variant: 'strict', prefetch: 1 });
    await send(queue, 'strict-good', Buffer.from([1, 0xff, 0xfe]));
    await send(queue, 'strict-bad', Buffer.from([2, 3]));
    await send(queue, 'strict-empty', Buffer.alloc(0));
    await settled(3, app);
    expect(app.events('got')).toEqual([
      { messageId: 'strict-good', payload: { rest: 'fffe' } },
      { messageId: 'strict-empty', payload: 'undefined' },
    ]);
    expect((await setup.rows('strict-bad'))[0]).toMatchObject({
      status: 'dead',
      last_error: expect.stringContaining('does not start with 1'),
    });
  });

  it('allowNonJsonMessages: golevelup hands over the text, as without this module', async () => {
    const queue = setup.broker.queue('any-text');
    const app = await setup.started(APP, { queue, variant: 'any-text' });
    await send(queue, 'text', Buffer.from('not json'));
    await settled(1, app);
    expect(app.events('got')).toEqual([{ messageId: 'text', payload: 'not json' }]);
  });

  it('where the application has told golevelup what to do about errors, that is done', async () => {
    const queue = setup.broker.queue('nack');
    await setup.started(APP, { queue, variant: 'nack' });
    await send(queue, 'nack', Buffer.from('not json'));
    const letter = await waitFor('the dead letter', () => setup.broker.get(setup.deadLetters));
    expect(letter.content.toString()).toBe('not json');
  });
});
