import 'reflect-metadata';
import { RabbitMQModule } from '@golevelup/nestjs-rabbitmq';
import { Logger, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { TypeOrmModule } from '@nestjs/typeorm';
import { InboxOutboxModule } from 'nestjs-inbox-outbox';

/** An application with nothing but an outbox; of several, one leads. */
@Module({
  imports: [
    TypeOrmModule.forRoot({
      type: 'postgres',
      url: process.env.DATABASE_URL,
      autoLoadEntities: true,
      synchronize: true,
    }),
    RabbitMQModule.forRoot({ uri: process.env.AMQP_URL ?? 'amqp://in-process', enableDirectReplyTo: false }),
    InboxOutboxModule.forRoot({
      outbox: { lease: Number(process.env.LEASE_MS), pollInterval: Number(process.env.POLL_MS) },
    }),
  ],
})
class ReplicaModule {}

async function main(): Promise<void> {
  const app = await NestFactory.createApplicationContext(ReplicaModule);
  app.enableShutdownHooks();
  Logger.log(`Process ${process.pid} is up`, 'main');
}

void main();
