import 'reflect-metadata';
import { RabbitMQModule, type RabbitMQConfig } from '@golevelup/nestjs-rabbitmq';
import { Module, type INestApplicationContext, type Provider } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { TypeOrmModule } from '@nestjs/typeorm';
import { createInboxOutboxMigration, InboxOutboxModule, type OutboxOptions } from 'nestjs-inbox-outbox';
import { AMQP_URL } from './servers';

export interface ApplicationOptions {
  /** `undefined`: the application does without the module. */
  readonly outbox?: OutboxOptions;
  readonly providers?: Provider[];
  readonly channels?: RabbitMQConfig['channels'];
  readonly poolSize?: number;
}

/** An application as users write it, on the database DATABASE. The tables come from the migration, or are there (MIGRATE=no). */
export function openApplication({
  outbox,
  providers = [],
  channels,
  poolSize,
}: ApplicationOptions): Promise<INestApplicationContext> {
  @Module({
    imports: [
      TypeOrmModule.forRoot({
        type: 'postgres',
        url: process.env.DATABASE,
        autoLoadEntities: true,
        migrations: [createInboxOutboxMigration()],
        migrationsRun: process.env.MIGRATE !== 'no',
        ...(poolSize && { poolSize }),
      }),
      RabbitMQModule.forRoot({ uri: AMQP_URL, ...(channels && { channels }) }),
      ...(outbox ? [InboxOutboxModule.forRoot({ outbox })] : []),
    ],
    providers,
  })
  class AppModule {}

  return NestFactory.createApplicationContext(AppModule, { logger: ['error', 'warn'] });
}

/** The outbox options that whoever has started this process wants: OPTIONS, as JSON. */
export const optionsGiven = (): OutboxOptions =>
  JSON.parse(process.env.OPTIONS ?? '{"dispatch":"off"}') as OutboxOptions;
