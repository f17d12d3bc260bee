import 'reflect-metadata';
import { randomUUID } from 'node:crypto';
import { createRequire } from 'node:module';
import serving from '../harness/serve.js';
import { body, openPublisher, until } from './publisher.mjs';

const require = createRequire(import.meta.url);
const { NestFactory } = require('@nestjs/core');
const { TypeOrmModule } = require('@nestjs/typeorm');
const { DataSource } = require('typeorm');
const { OnEvent, OutboxModule, TransactionalEventEmitter } = require('@fullstackhouse/nestjs-outbox');
const {
  TypeORMDatabaseDriverFactory,
  TypeOrmOutboxTransportEvent,
} = require('@fullstackhouse/nestjs-outbox-typeorm-driver');

const EVENT = 'message';
const database = {
  type: 'postgres',
  url: process.env.DATABASE,
  entities: [TypeOrmOutboxTransportEvent],
  synchronize: true,
};
const events = [
  { name: EVENT, listeners: { retentionPeriod: 86_400_000, maxExecutionTime: 15_000, maxRetries: 5 } },
];

/** An application with a listener, which polls this often. */
function openApp(pollingInterval) {
  class AppModule {}
  return NestFactory.createApplicationContext(
    {
      module: AppModule,
      imports: [
        TypeOrmModule.forRoot(database),
        OutboxModule.registerAsync({
          imports: [TypeOrmModule.forFeature([TypeOrmOutboxTransportEvent])],
          useFactory: (dataSource) => ({
            driverFactory: new TypeORMDatabaseDriverFactory(dataSource),
            events,
            pollingInterval,
            maxEventsPerPoll: 500,
            enableDefaultMiddlewares: false,
          }),
          inject: [DataSource],
        }),
      ],
      providers: [Publisher],
    },
    { logger: ['error'] },
  );
}

let publish;

class Publisher {
  async handle({ messageId, payload }) {
    await publish(messageId, payload);
  }
}
OnEvent(EVENT)(Publisher.prototype, 'handle', Object.getOwnPropertyDescriptor(Publisher.prototype, 'handle'));

/** It polls as long as it lives, so the backlog is written by one that in effect never does. */
let writer;

serving.serve({
  async ready({ queue }) {
    publish = await openPublisher(queue);
    writer = await openApp(3_600_000);
  },

  async fill({ count }) {
    const emitter = writer.get(TransactionalEventEmitter, { strict: false });
    for (let n = 0; n < count; n++) {
      await emitter.emit({ name: EVENT, messageId: randomUUID(), payload: body(n) });
    }
    // What is written is due only a moment later.
    await new Promise((resolve) => setTimeout(resolve, 1_000));
  },

  async drain() {
    const app = await openApp(10);
    const started = performance.now();
    const dataSource = writer.get(DataSource);
    await until(async () => {
      const [{ done }] = await dataSource.query(
        'SELECT NOT EXISTS (SELECT FROM outbox_transport_event) AS done',
      );
      return done;
    });
    const milliseconds = performance.now() - started;
    await app.close();
    return milliseconds;
  },
});
