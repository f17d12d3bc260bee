import { isRpcErrorReply, RPC_ERROR_HEADER } from '../../../lib';
import { waitFor } from '../../support/wait-for';
import { InboxSetup, logged } from '../inbox/inbox-setup';
import { json, RpcRequester } from './rpc-requester';

const RPC_APP = '../../inbox-edges/fixtures/rpc-app';

describe('RPC', () => {
  let setup: InboxSetup;
  let requester: RpcRequester;
  beforeAll(async () => {
    setup = await InboxSetup.open();
    requester = await RpcRequester.open(setup.broker);
  });
  afterEach(() => setup.stopApps());
  afterAll(() => setup.close());

  const ask = (reply: string, ...steps: string[]) => ({ reply, steps });

  it('G5: a duplicate is answered with the reply of the first, byte for byte, and has no effect', async () => {
    const queue = setup.broker.queue('rpc');
    const app = await setup.started(RPC_APP, { queue });
    for (const kind of ['object', 'array', 'string', 'bytes', 'binary', 'number', 'nothing']) {
      const send = () => requester.request(queue, ask(kind, 'effect'), { messageId: kind });
      const first = await send();
      const later = await Promise.all([send(), send()]);
      expect(later.map(({ body }) => body.toString('hex'))).toEqual(
        Array.from({ length: 2 }, () => first.body.toString('hex')),
      );
      expect(first.headers).not.toHaveProperty(RPC_ERROR_HEADER);
      expect(await setup.effectCount(kind)).toBe(1);
    }
    expect(app.events('run')).toHaveLength(7);
  });

  it('G5: requests at the same time get the same reply', async () => {
    const queue = setup.broker.queue('rpc-at-once');
    const app = await setup.started(RPC_APP, { queue });
    const ids = await Promise.all(
      Array.from({ length: 5 }, () =>
        requester.send(queue, ask('string', 'effect', 'gate on'), { messageId: 'at-once' }),
      ),
    );
    await app.waitFor('gate');
    await waitFor('all copies to be there', () => app.events('delivery').length === 5);
    await app.request('open', 'on');
    const replies = await Promise.all(ids.map((id) => requester.reply(id)));
    expect(new Set(replies.map(({ body }) => body.toString())).size).toBe(1);
    expect(await setup.effectCount('at-once')).toBe(1);
  });

  it('an interceptor around that changes replies gets that of a duplicate as it got the first', async () => {
    const queue = setup.broker.queue('rpc-wrapping');
    await setup.started(RPC_APP, { queue, variant: 'wrapping' });
    const send = () => requester.request(queue, ask('object'), { messageId: 'wrapped' });
    const first = json(await send());
    expect(first).toMatchObject({ data: { list: [1, { a: null }] } });
    expect(json(await send())).toEqual(first);
  });

  it('G6: SIGKILL after the commit: whoever takes over sends the reply that was committed', async () => {
    const queue = setup.broker.queue('rpc-kill');
    const first = await setup.started(RPC_APP, { queue }, { armed: ['after commit'] });
    const id = await requester.send(queue, ask('string', 'effect'), { messageId: 'rpc-kill' });
    expect((await first.exited).signal).toBe('SIGKILL');
    expect(requester.repliesTo(id)).toEqual([]);

    const second = await setup.started(RPC_APP, { queue });
    const reply = await requester.reply(id);
    const [row] = await setup.database.query<{ reply: Buffer }>(
      "SELECT reply FROM inbox_message WHERE message_id = 'rpc-kill'",
    );
    expect(reply.body.equals(row?.reply as Buffer)).toBe(true);
    expect(second.events('run')).toEqual([]);
    expect(await setup.effectCount('rpc-kill')).toBe(1);
  });

  it('a failed request is answered with an error that the requester can read; nothing of it is kept, and it may come again', async () => {
    const queue = setup.broker.queue('rpc-fails');
    const app = await setup.started(RPC_APP, { queue });
    const headers = { 'x-tenant': 'acme' };
    const send = () =>
      requester.request(queue, ask('string', 'effect', 'fail 1'), { messageId: 'rpc-fails', headers });
    const failed = await send();
    expect(json(failed)).toEqual({ error: { name: 'Error', message: 'asked to fail (run 1)' } });
    expect(isRpcErrorReply(json(failed))).toBe(true);
    expect(failed.headers).toEqual({ 'x-tenant': 'acme', [RPC_ERROR_HEADER]: 'Error' });
    expect(await setup.rows('rpc-fails')).toEqual([]);

    const handled = await send();
    expect(isRpcErrorReply(json(handled))).toBe(false);
    expect(handled.headers).toEqual({ 'x-tenant': 'acme' });
    expect(await setup.effectCount('rpc-fails')).toBe(1);
    expect(app.events('nack')).toEqual([]);
  });

  it('an error reply has neither stack nor further properties', async () => {
    const queue = setup.broker.queue('rpc-odd');
    await setup.started(RPC_APP, { queue });
    const { body, headers } = await requester.request(queue, ask('odd'), { messageId: 'odd' });
    expect(body.toString()).toBe('{"error":{"name":"OddError","message":"an odd failure"}}');
    expect(headers).toEqual({ [RPC_ERROR_HEADER]: 'OddError' });
  });

  it('errorReply: the application says what a requester gets', async () => {
    const queue = setup.broker.queue('rpc-own-error');
    await setup.started(RPC_APP, { queue, variant: 'error-reply' });
    const reply = await requester.request(queue, ask('odd'), { messageId: 'own-error' });
    expect(json(reply)).toEqual({ sorry: 'OddError' });
    expect(reply.headers).toEqual({ [RPC_ERROR_HEADER]: 'OddError' });
  });

  it('C47: a reply that cannot be encoded fails before the commit', async () => {
    const queue = setup.broker.queue('rpc-bigint');
    await setup.started(RPC_APP, { queue });
    const reply = await requester.request(queue, ask('bigint', 'effect'), { messageId: 'bigint' });
    expect(json(reply)).toMatchObject({ error: { name: 'TypeError' } });
    expect(await setup.effectCount('bigint')).toBe(0);
    expect(await setup.rows('bigint')).toEqual([]);
  });

  it('C12, C19: requests without an id, with a body that cannot be decoded, and without a body', async () => {
    const queue = setup.broker.queue('rpc-bad');
    await setup.started(RPC_APP, { queue });
    const anonymous = await requester.request(queue, ask('string'));
    expect(json(anonymous)).toMatchObject({ error: { name: 'MissingMessageIdError' } });
    const broken = await requester.request(queue, Buffer.from('not json'), { messageId: 'broken' });
    expect(json(broken)).toMatchObject({ error: { name: 'UndecodableBodyError' } });
    expect(broken.headers).toEqual({ [RPC_ERROR_HEADER]: 'UndecodableBodyError' });
    expect(await setup.rows('broken')).toEqual([]);
    const empty = await requester.request(queue, Buffer.alloc(0), { messageId: 'empty' });
    expect(json(empty)).toBe('nothing asked');
  });

  it('a guard that refuses: the requester is told', async () => {
    const queue = setup.broker.queue('rpc-guard');
    const app = await setup.started(RPC_APP, { queue, variant: 'guard' });
    const reply = await requester.request(queue, ask('string'), { messageId: 'guard' });
    expect(json(reply)).toMatchObject({ error: { name: 'ForbiddenException' } });
    expect(reply.headers).toEqual({ [RPC_ERROR_HEADER]: 'ForbiddenException' });
    await app.waitFor('ack');
  });

  it("onFailure 'reject': the request goes to the dead letters, and there is no reply", async () => {
    const queue = setup.broker.queue('rpc-reject');
    const app = await setup.started(RPC_APP, { queue, idempotent: { onFailure: 'reject' } });
    const id = await requester.send(queue, ask('odd'), { messageId: 'rpc-reject' });
    await waitFor('the dead letter', () => setup.broker.get(setup.deadLetters));
    expect(requester.repliesTo(id)).toEqual([]);
    expect(logged(app, 'error').join()).toContain('an odd failure');
  });
});
