import 'reflect-metadata';
import { setTimeout as delay } from 'node:timers/promises';
import { RabbitMQModule } from '@golevelup/nestjs-rabbitmq';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { TypeOrmModule } from '@nestjs/typeorm';
import { InboxOutboxModule, type OutboxOptions } from 'nestjs-inbox-outbox';
import { AMQP_URL } from '../harness/servers';
import { serve } from '../harness/serve';
import { countStatements } from './counted-statements';

/** An application with nothing to do. OPTIONS: the outbox options as JSON. */
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

serve({
  async ready(): Promise<void> {
    await opened;
  },

  /** Statements sent meanwhile, BEGIN and COMMIT included. */
  async idle({ milliseconds }: { milliseconds: number }): Promise<number> {
    const before = countStatements();
    await delay(milliseconds);
    return countStatements() - before;
  },
});
