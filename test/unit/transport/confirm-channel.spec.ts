import { EventEmitter } from 'node:events';
import type { AmqpMessage } from '../../../lib/transport/rabbitmq/amqp-message';
import type { RawConfirmChannel, RawConnection } from '../../../lib/transport/rabbitmq/amqp-types';
import { ConfirmChannel } from '../../../lib/transport/rabbitmq/confirm-channel';

/** A channel as amqplib has it: counts before it encodes, and answers by position. */
class FakeChannel extends EventEmitter {
  readonly unconfirmed: ((error: unknown) => void)[] = [];
  published = 0;
  writable = true;
  closed = 0;
  publish(
    _exchange: string,
    routingKey: string,
    _body: Buffer,
    _options: object,
    callback: (e: unknown) => void,
  ) {
    this.unconfirmed.push(callback);
    if (routingKey === 'cannot be encoded') throw new TypeError("Field 'headers' is the wrong type");
    this.published++;
    return this.writable;
  }
  confirm(error: unknown = null) {
    this.unconfirmed.shift()?.(error);
  }
  returned(messageId: string) {
    this.emit('return', { fields: { replyCode: 312, replyText: 'NO_ROUTE' }, properties: { messageId } });
  }
  serverCloses(code: number, text: string) {
    this.emit('error', Object.assign(new Error(text), { code }));
    this.dies();
  }
  dies() {
    for (const callback of this.unconfirmed.splice(0)) callback(new Error('channel closed'));
    this.emit('close');
  }
  close() {
    this.closed++;
    this.dies();
    return Promise.resolve();
  }
}

const message = (messageId: string, routingKey = 'key'): AmqpMessage => ({
  messageId,
  exchange: 'ex',
  routingKey,
  body: Buffer.from(''),
  options: { messageId },
});

describe('ConfirmChannel', () => {
  let raw: FakeChannel;
  let connection: EventEmitter;
  let channel: ConfirmChannel;
  beforeEach(async () => {
    raw = new FakeChannel();
    connection = Object.assign(new EventEmitter(), {
      createConfirmChannel: () => Promise.resolve(raw as unknown as RawConfirmChannel),
    });
    connection.on('error', () => undefined);
    channel = await ConfirmChannel.open(connection as unknown as RawConnection);
  });

  it('G3: only a positive confirm without a return is "sent"', async () => {
    const [good, returned, nacked] = ['a', 'b', 'c'].map((id) => channel.publish(message(id), 1_000));
    raw.returned('b');
    raw.confirm();
    raw.confirm();
    raw.confirm(new Error('message nacked'));
    expect(await good).toEqual({ kind: 'sent' });
    expect(await returned).toEqual({ kind: 'failed', error: expect.stringContaining('NO_ROUTE') });
    expect(await nacked).toEqual({ kind: 'failed', error: expect.stringContaining('nacked') });
  });

  it('a return of something else is nobody’s', async () => {
    const outcome = channel.publish(message('a'), 1_000);
    raw.returned('unknown');
    raw.emit('return', { fields: {}, properties: {} });
    raw.confirm();
    expect(await outcome).toEqual({ kind: 'sent' });
  });

  it('tells what the server closed it for, and that a broken connection is not the fault of a message', async () => {
    const byServer = channel.publish(message('a'), 1_000);
    raw.serverCloses(406, 'PRECONDITION_FAILED - too large');
    expect(await byServer).toEqual({
      kind: 'lost',
      fault: { code: 406, byMessage: true, error: expect.stringContaining('too large') },
    });
    expect(channel.usable).toBe(false);
    expect(await channel.publish(message('b'), 1_000)).toMatchObject({ kind: 'closed' });
    expect(raw.published).toBe(1);
  });

  it.each([
    [320, 'CONNECTION_FORCED', false],
    [501, 'FRAME_ERROR', true],
    [undefined, 'read ECONNRESET', false],
  ])('a connection that ends with %s %s: the message did it = %s', async (code, text, byMessage) => {
    const outcome = channel.publish(message('a'), 1_000);
    connection.emit('error', Object.assign(new Error(text), { code }));
    raw.dies();
    expect(await outcome).toMatchObject({ kind: 'lost', fault: { byMessage, error: text } });
    expect(connection.listenerCount('error')).toBe(1);
  });

  it('G3: after a message that cannot be encoded the counting is off: nothing more is published here', async () => {
    const before = channel.publish(message('before'), 1_000);
    const broken = await channel.publish(message('broken', 'cannot be encoded'), 1_000);
    expect(broken).toEqual({ kind: 'failed', error: expect.stringContaining('wrong type') });
    expect(channel.usable).toBe(false);
    expect(raw.closed).toBe(0);
    raw.confirm();
    expect(await before).toEqual({ kind: 'sent' });
    await channel.close();
    expect(raw.closed).toBe(1);
  });

  it('gives up after the timeout; an answer that comes later changes nothing', async () => {
    const late = channel.publish(message('a'), 5);
    expect(await late).toEqual({ kind: 'unanswered', error: expect.stringContaining('5 ms') });
    const again = channel.publish(message('a'), 1_000);
    raw.confirm();
    raw.confirm(new Error('message nacked'));
    expect(await again).toMatchObject({ kind: 'failed' });
  });

  it('says when the write buffer is full, and wakes those who wait when it has drained or the channel is closed', async () => {
    raw.writable = false;
    void channel.publish(message('a'), 1_000);
    expect(channel.writable).toBe(false);
    const drained = channel.untilWritable(10_000);
    raw.emit('drain');
    await drained;
    expect(channel.writable).toBe(true);
    void channel.publish(message('b'), 1_000);
    const closed = channel.untilWritable(10_000);
    raw.dies();
    await closed;
    await channel.untilWritable(10_000);
  });

  it('closed with something under way: that is unknown', async () => {
    const outcome = channel.publish(message('a'), 1_000);
    await channel.close();
    await channel.close();
    expect(await outcome).toMatchObject({ kind: 'lost', fault: { byMessage: false } });
    expect(raw.closed).toBe(1);
  });
});
