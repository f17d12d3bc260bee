import 'reflect-metadata';
import { setTimeout as delay } from 'node:timers/promises';
import { RabbitMQModule } from '@golevelup/nestjs-rabbitmq';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { TypeOrmModule } from '@nestjs/typeorm';
import { InboxOutboxModule, OutboxService, type OutboxOptions } from 'nestjs-inbox-outbox';
import { DataSource } from 'typeorm';
import { body } from '../harness/body';
import { AMQP_URL } from '../harness/servers';
import { serve } from '../harness/serve';

/** One message now and then, with the time at which its commit was known. OPTIONS: the outbox options as JSON. */
@Module({
  imports: [
    TypeOrmModule.forRoot({
      type: 'postgres',
      url: process.env.DATABASE,
      autoLoadEntities: true,
      synchronize: process.env.SYNCHRONIZE === 'yes',
    }),
    RabbitMQModule.forRoot({ uri: AMQP_URL }),
    InboxOutboxModule.forRoot({ outbox: JSON.parse(process.env.OPTIONS ?? '{}') as OutboxOptions }),
  ],
})
class AppModule {}

const opened = NestFactory.createApplicationContext(AppModule, { logger: ['error', 'warn'] });

interface Publish {
  readonly queue: string;
  readonly count: number;
  /** Milliseconds from one to the next, on average. */
  readonly pause: number;
}

serve({
  async ready(): Promise<void> {
    await opened;
  },

  /** @returns when each message's commit was known, in ms of `process.hrtime` */
  async publish({ queue, count, pause }: Publish): Promise<Record<string, number>> {
    const app = await opened;
    const committed: Record<string, number> = {};
    for (let n = 0; n < count; n++) {
      const id = await app
        .get(DataSource)
        .transaction(() => app.get(OutboxService).publish('', queue, body(n)));
      committed[id] = Number(process.hrtime.bigint()) / 1e6;
      // Not in step with anything that polls.
      await delay(pause * (0.5 + Math.random()));
    }
    return committed;
  },
});
