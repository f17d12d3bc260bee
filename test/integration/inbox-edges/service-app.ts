import 'reflect-metadata';
import { Module, type INestApplicationContext } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { getDataSourceToken, TypeOrmModule } from '@nestjs/typeorm';
import type { DataSource } from 'typeorm';
import {
  getInboxToken,
  InboxOutboxModule,
  InboxService,
  Transactions,
  type InboxOptions,
} from '../../../lib';
import type { TestDatabase } from '../../support/test-database';

export interface ServiceApp {
  readonly app: INestApplicationContext;
  readonly inbox: InboxService;
  readonly transactions: Transactions;
  readonly dataSource: DataSource;
  /** Of the data source `billing`, which has the same database and an inbox table of its own. */
  readonly billing: InboxService;
}

/** An application without a broker, as one that takes webhooks only. */
export async function startServiceApp(
  { url }: TestDatabase,
  inbox: InboxOptions = {},
  poolSize = 10,
): Promise<ServiceApp> {
  const source = { type: 'postgres', url, autoLoadEntities: true, synchronize: true } as const;

  @Module({
    imports: [
      TypeOrmModule.forRoot({ ...source, extra: { max: poolSize } }),
      TypeOrmModule.forRoot({ ...source, name: 'billing' }),
      InboxOutboxModule.forRoot({ inbox, outbox: { dispatch: 'off' }, shutdownTimeout: '2s' }),
      InboxOutboxModule.forRoot({
        dataSource: 'billing',
        inboxTable: 'billing_inbox',
        outboxTable: 'billing_outbox',
        lockTable: 'billing_lock',
        outbox: { dispatch: 'off' },
      }),
    ],
  })
  class ServiceModule {}

  const app = await NestFactory.createApplicationContext(ServiceModule, {
    logger: false,
    abortOnError: false,
  });
  return {
    app,
    inbox: app.get(InboxService),
    transactions: app.get(Transactions),
    dataSource: app.get<DataSource>(getDataSourceToken()),
    billing: app.get(getInboxToken('billing')),
  };
}
