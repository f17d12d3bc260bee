import 'reflect-metadata';
import { RabbitMQModule } from '@golevelup/nestjs-rabbitmq';
import {
  Module,
  type DynamicModule,
  type INestApplicationContext,
  type Provider,
  type Type,
} from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { TypeOrmModule } from '@nestjs/typeorm';
import type { TestBroker } from '../../support/test-broker';
import type { TestDatabase } from '../../support/test-database';

export interface TestAppOptions {
  database: Pick<TestDatabase, 'url'>;
  broker: TestBroker;
  /** The module under test, as an application imports it. */
  inboxOutbox: (DynamicModule | Type)[];
  imports?: (DynamicModule | Type)[];
  providers?: Provider[];
  entities?: Type[];
  /** Further options of the data source. */
  dataSource?: object;
}

/** A Nest application as a user would write it; one at a time, since golevelup keeps static state. */
export async function startTestApp(options: TestAppOptions): Promise<INestApplicationContext> {
  const { database, broker, inboxOutbox, imports = [], providers = [], entities = [], dataSource } = options;

  @Module({
    imports: [
      TypeOrmModule.forRoot({
        type: 'postgres',
        url: database.url,
        autoLoadEntities: true,
        synchronize: true,
        ...dataSource,
      } as object),
      TypeOrmModule.forFeature(entities),
      RabbitMQModule.forRoot({
        uri: broker.url,
        exchanges: [{ name: broker.exchange('events'), type: 'topic', options: { autoDelete: true } }],
      }),
      ...imports,
      ...inboxOutbox,
    ],
    providers,
  })
  class TestApp {}

  return NestFactory.createApplicationContext(TestApp, { logger: false, abortOnError: false });
}
