import { FakeAmqplibChannel, FakeAmqplibConfirmChannel } from '@onify/fake-amqplib';
import { INestApplication, LoggerService } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { AddressInfo, Server } from 'node:net';
import { Sql } from '../../shared/sql';
import { settings } from '../shared/settings';
import { BrokerClient } from './broker-client';
import { OneAppModule } from './one-app.module';
import type { Stage } from './prepare';
import { CREATE_DELIVERIES, tap } from './wiretap';
import { Accident, World } from './world';

/** Nothing but Node: a PostgreSQL from npm, an in-process broker, and both services in this process. */
export async function embeddedWorld({ cleanup, fakeBroker }: Stage): Promise<World> {
  if (!fakeBroker) throw new Error('Without real servers there must be an in-process broker');
  const sql = await Sql.connect(settings.databaseUrl);
  cleanup.add(() => sql.close());
  await sql.rows(CREATE_DELIVERIES);
  const strikes = tap(settings.databaseUrl, FakeAmqplibChannel, FakeAmqplibConfirmChannel);
  cleanup.add(() => strikes.close());
  const logged: string[] = [];
  const app = await startApp(logged);
  cleanup.add(() => app.close());
  const { port } = (app.getHttpServer() as Server).address() as AddressInfo;
  const version = await sql.rows<{ server_version: string }>('SHOW server_version');

  return {
    description: [
      `PostgreSQL ${version[0]?.server_version} and an in-process broker, both from npm; the two services share one process.`,
      'The broker is a stand-in without a network: what it cannot do is play-acted, and marked "staged".',
    ],
    staged: ' (staged)',
    intakeUrl: `http://127.0.0.1:${port}`,
    intakeDb: sql,
    settlementDb: sql,
    broker: await BrokerClient.connect(fakeBroker.connection),
    brokerGoesAway: () => fakeBroker.goAway(),
    brokerComesBack: () => Promise.resolve(fakeBroker.comeBack()),
    settlementLosesItsNextAck: () => {
      const happened = new Promise<void>((resolve) => {
        strikes.insteadOfAck = (redeliver) => {
          redeliver();
          resolve();
        };
      });
      return Promise.resolve<Accident>({ happened, recover: () => Promise.resolve() });
    },
    log: () => logged.join('\n'),
  };
}

async function startApp(logged: string[]): Promise<INestApplication> {
  const note = (...parts: unknown[]) => void logged.push(parts.map(String).join(' '));
  const logger: LoggerService = { log: note, warn: note, error: note, fatal: note };
  const app = await NestFactory.create(OneAppModule, { logger, abortOnError: false });
  await app.listen(0, '127.0.0.1');
  return app;
}
