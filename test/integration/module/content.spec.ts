import { RabbitSubscribe } from '@golevelup/nestjs-rabbitmq';
import { Injectable, type INestApplicationContext } from '@nestjs/common';
import { DataSource } from 'typeorm';
import {
  Idempotent,
  InboxOutboxModule,
  OutboxService,
  type MessageSerializer,
  type OutboxOptions,
  type PublishOptions,
} from '../../../lib';
import { openTestBroker, type TestBroker } from '../../support/test-broker';
import { createTestDatabase, type TestDatabase } from '../../support/test-database';
import { startTestApp } from './test-app';

/** Of the kind of MessagePack: a type byte, a length, the bytes. */
const binary: MessageSerializer = {
  serialize(payload, { routingKey, properties }) {
    const text = Buffer.from(JSON.stringify(payload), 'utf16le');
    const head = Buffer.from([0xc1, 0xff, 0x00, properties.priority ?? 0, routingKey.length]);
    return {
      body: Buffer.concat([head, text]),
      contentType: 'application/x-test',
      contentEncoding: 'identity',
    };
  },
};

/** All that AMQP headers can be, as amqplib gives them back. */
const HEADERS = {
  text: 'größe 👩‍👩‍👧‍👦 \0',
  int: -(2 ** 31),
  long: Number.MAX_SAFE_INTEGER,
  double: 0.1,
  yes: true,
  nothing: null,
  bytes: Buffer.from([0, 255, 128]),
  list: [1, 'two', [Buffer.from([3])], { four: 4 }],
  table: { deep: { deeper: [null, false] } },
  date: { '!': 'timestamp', value: 1_700_000_000 },
  price: { '!': 'decimal', value: { digits: 1999, places: 2 } },
  float: { '!': 'float', value: 0.5 },
};

let database: TestDatabase;
let broker: TestBroker;
let app: INestApplicationContext | undefined;
let queue: string;

beforeEach(async () => {
  [database, broker] = await Promise.all([createTestDatabase(), openTestBroker()]);
  queue = await broker.assertQueue('out');
});
afterEach(async () => {
  await app?.close();
  app = undefined;
  await Promise.all([database.close(), broker.close()]);
});

async function start(outbox: OutboxOptions, providers: (new (...args: never[]) => object)[] = []) {
  app = await startTestApp({
    database,
    broker,
    inboxOutbox: [InboxOutboxModule.forRoot({ outbox })],
    providers,
  });
  return app;
}

async function publish(payload: unknown, options?: PublishOptions): Promise<void> {
  await app!.get(DataSource).transaction(() => app!.get(OutboxService).publish('', queue, payload, options));
}

test('what a binary serializer makes arrives byte for byte, with its content type', async () => {
  await start({ serializer: binary });
  const payload = { claim: 4711, note: 'größe \0 \ud83d' };
  await publish(payload, { priority: 7 });
  await publish(payload, { contentType: 'application/x-mine' });
  await publish(Buffer.from([0, 254, 255]));
  const collector = await broker.collect(queue);
  const [first, second, third] = await collector.count(3);
  const { body } = binary.serialize(payload, {
    exchange: '',
    routingKey: queue,
    properties: { priority: 7 },
  });
  expect(first!.content.equals(body as Buffer)).toBe(true);
  expect(first!.properties).toMatchObject({
    contentType: 'application/x-test',
    contentEncoding: 'identity',
    priority: 7,
  });
  expect(second!.properties).toMatchObject({ contentType: 'application/x-mine' });
  expect([...third!.content]).toEqual([0, 254, 255]);
  expect(third!.properties.contentType).toBeUndefined();
});

test('headers of every AMQP type and all properties arrive as they were given', async () => {
  await start({});
  const properties = {
    contentType: 'text/plain',
    contentEncoding: 'utf-8',
    priority: 9,
    correlationId: 'c-1',
    replyTo: 'answers',
    expiration: '600000',
    messageId: 'm-1',
    timestamp: 1_700_000_001,
    type: 'claim.reported',
    appId: 'claims',
  };
  await publish(Buffer.from('text'), { ...properties, persistent: false, headers: HEADERS });
  const collector = await broker.collect(queue);
  const [message] = await collector.count(1);
  expect(message!.properties).toMatchObject({ ...properties, deliveryMode: 1 });
  // amqplib reads a float and the other numbers as what they are worth.
  expect(message!.properties.headers).toEqual({ ...HEADERS, float: 0.5 });
});

test('C46: what JSON can express arrives as what JSON makes of it, one message each', async () => {
  await start({});
  class Money {
    constructor(private readonly cents: number) {}
    toJSON() {
      return { cents: this.cents };
    }
  }
  const payloads = [
    ...[[1, 2, 3], [], ['a'], 'text', '{"a":1}', '', 0, false, null, {}, { a: undefined }],
    ...[new Date(0), new Money(1_250)],
  ];
  for (const payload of payloads) await publish(payload);
  const collector = await broker.collect(queue);
  await collector.count(payloads.length);
  expect(collector.json()).toEqual(payloads.map((payload) => JSON.parse(JSON.stringify(payload)) as unknown));
  // An empty body, which is what golevelup sends for null, would not be JSON.
  expect(collector.messages[payloads.indexOf(null)]!.content.toString()).toBe('null');
});

test('C45: every character arrives, in bodies, headers and routing keys', async () => {
  await start({});
  const payload = { nul: 'a\0b', lone: '\ud800', emoji: '👩‍👩‍👧‍👦 𝒳' };
  const headers = { emoji: '👩‍👩‍👧‍👦', nul: 'a\0b' };
  const exchange = await broker.assertExchange('C45');
  await broker.bind(queue, exchange, 'größe.é');
  await app!
    .get(DataSource)
    .transaction(() =>
      app!.get(OutboxService).publish(exchange, 'größe.é', payload, { orderingKey: '🔑', headers }),
    );
  const collector = await broker.collect(queue);
  const [message] = await collector.count(1);
  expect(collector.json()).toEqual([payload]);
  expect(message!.fields.routingKey).toBe('größe.é');
  expect(message!.properties.headers).toEqual(headers);
});

@Injectable()
class Settlement {
  static queue = '';
  static answers = '';
  constructor(private readonly outbox: OutboxService) {}

  async onClaim(): Promise<void> {
    await this.outbox.publish('', Settlement.answers, 'first');
    await this.outbox.publishMany([
      { exchange: '', routingKey: Settlement.answers, payload: 'second', options: { correlationId: 'mine' } },
    ]);
  }
}

/** The queue's name is known at run time only. */
function subscribed(input: string, answers: string): new (...args: never[]) => object {
  @Injectable()
  class Subscribed extends Settlement {
    constructor(outbox: OutboxService) {
      super(outbox);
    }

    @RabbitSubscribe({ queue: input, queueOptions: { durable: true } })
    @Idempotent()
    override onClaim(): Promise<void> {
      return super.onClaim();
    }
  }
  Settlement.answers = answers;
  return Subscribed;
}

test('correlation, cause and trace go from the message that is handled to what its handler publishes', async () => {
  const input = await broker.assertQueue('in');
  await start({}, [subscribed(input, queue)]);
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
  await broker.sendToQueue(
    input,
    {},
    { messageId: 'n-1', correlationId: 'case-1', headers: { traceparent } },
  );
  await broker.sendToQueue(input, {}, { messageId: 'n-2' });
  const collector = await broker.collect(queue);
  await collector.count(4);
  const seen = collector.messages.map(({ content, properties }) => ({
    body: JSON.parse(content.toString()) as string,
    correlationId: properties.correlationId as string,
    headers: properties.headers as object,
  }));
  const of = (id: string) => seen.filter(({ headers }) => headers['x-causation-id' as never] === id);
  expect(of('n-1')).toEqual([
    { body: 'first', correlationId: 'case-1', headers: { 'x-causation-id': 'n-1', traceparent } },
    { body: 'second', correlationId: 'mine', headers: { 'x-causation-id': 'n-1', traceparent } },
  ]);
  expect(of('n-2').map(({ correlationId }) => correlationId)).toEqual(['n-2', 'mine']);
});

test('with propagateContext off a message has nothing but what was given', async () => {
  const input = await broker.assertQueue('in');
  await start({ propagateContext: false }, [subscribed(input, queue)]);
  await broker.sendToQueue(input, {}, { messageId: 'n-1', correlationId: 'case-1' });
  const collector = await broker.collect(queue);
  const [message] = await collector.count(1);
  expect(message!.properties).toMatchObject({ correlationId: undefined, headers: {} });
});
