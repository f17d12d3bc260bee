import { EventEmitter } from 'node:events';
import type { ClaimedMessage } from '../../../lib/persistence/outbox-statements';
import type { BrokerConnection, ManagedConnection } from '../../../lib/transport/rabbitmq/amqp-types';
import { RabbitMqTransport } from '../../../lib/transport/rabbitmq/rabbitmq-transport';

const limits = { timeout: 50, mayStart: () => true };
const row = (messageId: string): ClaimedMessage => ({
  seq: messageId,
  messageId,
  exchange: 'ex',
  routingKey: 'key',
  body: '',
  bodyEncoding: 'utf8',
  headers: null,
  properties: null,
  orderingKey: null,
  attempts: 0,
  retry: null,
  transport: 'rabbitmq',
  createdAt: new Date(),
  expired: false,
});

/** Channels whose answers the test gives; `published` is over all of them. */
class FakeBroker {
  readonly managed = new EventEmitter();
  current: EventEmitter | undefined;
  readonly published: { id: string; channel: number; answer: (error?: unknown) => void }[] = [];
  readonly channels: EventEmitter[] = [];
  readonly buffers: EventEmitter[] = [];
  opens = true;

  constructor() {
    Object.defineProperty(this.managed, 'connection', { get: () => this.current });
    this.connect();
  }

  connect(): EventEmitter {
    const connection = Object.assign(new EventEmitter(), {
      createConfirmChannel: () =>
        this.opens ? Promise.resolve(this.channel()) : new Promise(() => undefined),
    });
    connection.on('error', () => undefined);
    this.current = connection;
    this.managed.emit('connect');
    return connection;
  }

  /** The server ends the whole connection. */
  drop(code?: number): void {
    this.current?.emit('error', Object.assign(new Error('dropped'), { code }));
    this.current = undefined;
    for (const channel of this.channels.splice(0)) channel.emit('close');
    this.managed.emit('disconnect');
  }

  /** The server closes one channel because of something that was published on it. */
  closeChannel(number: number, code: number): void {
    this.channels[number]?.emit('error', Object.assign(new Error('closed by server'), { code }));
    this.channels[number]?.emit('close');
  }

  get connection(): BrokerConnection {
    return { managedConnection: this.managed as unknown as ManagedConnection, configuration: {} };
  }

  private channel(): EventEmitter {
    const number = this.channels.length;
    const buffer = new EventEmitter();
    this.buffers.push(buffer);
    const channel: EventEmitter = Object.assign(new EventEmitter(), {
      // As amqplib has it: the frames that wait to be written, by the number of the channel.
      ch: number,
      connection: { channels: { [number]: { buffer } } },
      publish: (
        _e: string,
        _k: string,
        _b: Buffer,
        { messageId }: { messageId: string },
        done: (e: unknown) => void,
      ) => {
        this.published.push({ id: messageId, channel: number, answer: (error = null) => done(error) });
        return true;
      },
      close: () => Promise.resolve(channel.emit('close')),
    });
    this.channels.push(channel);
    return channel;
  }
}

describe('RabbitMqTransport', () => {
  const settle = () => new Promise(setImmediate);

  it('is not available while disconnected or blocked, and tells when it is again', () => {
    const broker = new FakeBroker();
    const transport = new RabbitMqTransport(broker.connection);
    const back = jest.fn();
    const off = transport.onAvailable(back);
    expect(transport.availability()).toEqual({ available: true });
    broker.managed.emit('blocked');
    expect(transport.availability()).toEqual({ available: false, reason: 'blocked' });
    broker.managed.emit('unblocked');
    expect(back).toHaveBeenCalledTimes(1);
    broker.managed.emit('blocked');
    broker.drop();
    expect(transport.availability()).toEqual({ available: false, reason: 'disconnected' });
    broker.connect();
    expect(transport.availability()).toEqual({ available: true });
    expect(back).toHaveBeenCalledTimes(2);
    off();
    broker.connect();
    expect(back).toHaveBeenCalledTimes(2);
  });

  it('writes nothing without a connection, without a channel in time, or when the lease has ended meanwhile', async () => {
    const broker = new FakeBroker();
    const transport = new RabbitMqTransport(broker.connection);
    broker.opens = false;
    expect(await transport.send(row('a'), limits)).toMatchObject({
      kind: 'unsent',
      error: expect.stringContaining('50 ms'),
    });
    broker.drop();
    expect(await transport.send(row('b'), limits)).toMatchObject({ kind: 'unsent' });
    const other = new FakeBroker();
    const late = { ...limits, mayStart: () => false };
    expect(await new RabbitMqTransport(other.connection).send(row('c'), late)).toMatchObject({
      kind: 'unsent',
    });
    expect(other.published).toEqual([]);
  });

  it('C33: a message that makes the server close the whole connection is sent alone once it is back, and found', async () => {
    const broker = new FakeBroker();
    const transport = new RabbitMqTransport(broker.connection);
    const first = [transport.send(row('a'), limits), transport.send(row('poison'), limits)];
    await settle();
    broker.drop(501);
    // It was written: nobody knows, and no attempt is used up.
    for (const outcome of await Promise.all(first)) expect(outcome).toMatchObject({ kind: 'unknown' });

    broker.connect();
    broker.published.length = 0;
    const second = [
      transport.send(row('a'), limits),
      transport.send(row('poison'), limits),
      transport.send(row('new'), limits),
    ];
    await settle();
    expect(broker.published.map(({ id }) => id).sort()).toEqual(['a', 'new']);
    for (const { answer } of broker.published.splice(0)) answer();
    await settle();
    expect(broker.published.map(({ id }) => id)).toEqual(['poison']);
    broker.drop(501);
    expect((await Promise.all(second)).map(({ kind }) => kind)).toEqual(['sent', 'failed', 'sent']);
  });

  it('C33: opens no channel before the closed one has written its rest, which amqplib would mix up', async () => {
    const broker = new FakeBroker();
    const transport = new RabbitMqTransport(broker.connection);
    const outcomes = [
      transport.send(row('a'), { ...limits, timeout: 5_000 }),
      transport.send(row('b'), limits),
    ];
    await settle();
    broker.closeChannel(0, 406);
    await settle();
    expect(broker.channels).toHaveLength(1);
    broker.buffers[0]?.emit('close');
    await settle();
    expect(broker.channels).toHaveLength(2);
    broker.published.at(-1)?.answer();
    await settle();
    broker.published.at(-1)?.answer();
    expect((await Promise.all(outcomes)).map(({ kind }) => kind)).toEqual(['sent', 'sent']);
    expect(broker.current?.listenerCount('close')).toBe(1);
  });

  it('waits for no rest of a channel whose connection is gone', async () => {
    const broker = new FakeBroker();
    const transport = new RabbitMqTransport(broker.connection);
    const first = transport.send(row('a'), limits);
    await settle();
    broker.drop();
    expect(await first).toMatchObject({ kind: 'unknown' });
    broker.connect();
    const second = transport.send(row('a'), limits);
    await settle();
    broker.published.at(-1)?.answer();
    expect(await second).toEqual({ kind: 'sent' });
  });

  it('a connection that merely breaks makes no suspects', async () => {
    const broker = new FakeBroker();
    const transport = new RabbitMqTransport(broker.connection);
    const first = [transport.send(row('a'), limits), transport.send(row('b'), limits)];
    await settle();
    broker.drop();
    for (const outcome of await Promise.all(first)) expect(outcome).toMatchObject({ kind: 'unknown' });
    broker.connect();
    broker.published.length = 0;
    void transport.send(row('a'), limits);
    void transport.send(row('b'), limits);
    await settle();
    expect(broker.published.map(({ id }) => id)).toEqual(['a', 'b']);
  });

  it('closed, it ends what is under way as unknown and listens no more', async () => {
    const broker = new FakeBroker();
    const transport = new RabbitMqTransport(broker.connection);
    const outcome = transport.send(row('a'), limits);
    await settle();
    await transport.close();
    await transport.close();
    expect(await outcome).toMatchObject({ kind: 'unknown' });
    expect(broker.managed.eventNames()).toEqual([]);
    expect(await transport.send(row('b'), limits)).toMatchObject({ kind: 'unsent' });
  });
});
