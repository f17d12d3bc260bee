import { connect } from 'amqplib';
import { CLAIMS_EXCHANGE, INTAKE_QUEUE, SETTLEMENT_QUEUE } from '../shared/broker';
import type { Cleanup } from '../../shared/cleanup';
import { freePort } from '../../shared/free-port';
import type { Sql } from '../../shared/sql';
import { TcpProxy } from '../../shared/tcp-proxy';
import { temporaryDatabase } from '../../shared/temporary-database';
import { BrokerClient } from './broker-client';
import type { Stage } from './prepare';
import { ServiceProcess } from './service-process';
import { CREATE_DELIVERIES } from './wiretap';
import { Accident, World } from './world';

type Servers = NonNullable<Stage['servers']>;

/** Real servers: two processes, a database for each, and names of their own on the broker. All of it is removed again. */
export async function serverWorld(
  { cleanup, withoutInbox }: Stage,
  { databaseUrl, amqpUrl }: Servers,
): Promise<World> {
  const intakeDb = await createDatabase(databaseUrl, 'intake', cleanup);
  const settlementDb = await createDatabase(databaseUrl, 'settlement', cleanup);

  const connection = await connect(amqpUrl);
  cleanup.add(() => connection.close());
  const broker = await BrokerClient.connect(connection);
  cleanup.add(() => deleteTopology(broker));
  const proxy = await TcpProxy.before(amqpUrl);
  cleanup.add(() => proxy.refuse());

  const port = await freePort();
  const common = { AMQP_URL: proxy.url, DEMO_WITHOUT_INBOX: withoutInbox ? '1' : '' };
  const intake = new ServiceProcess('intake', { ...common, DATABASE_URL: intakeDb.url, PORT: String(port) });
  const settlement = new ServiceProcess('settlement', { ...common, DATABASE_URL: settlementDb.url });
  cleanup.add(() => Promise.all([intake.stop(), settlement.stop()]));
  await Promise.all([intake.start(), settlement.start()]);

  const accident = async (service: ServiceProcess, strike: 'ack' | 'confirm'): Promise<Accident> => ({
    ...(await service.dieInsteadOf(strike)),
    recover: () => service.start(),
  });
  const [postgres] = await intakeDb.rows<{ server_version: string }>('SHOW server_version');
  const rabbit = connection.connection.serverProperties.version;

  return {
    description: [
      `PostgreSQL ${postgres?.server_version} and RabbitMQ ${rabbit}; two processes, each with a database of its own.`,
    ],
    staged: '',
    intakeUrl: `http://127.0.0.1:${port}`,
    intakeDb,
    settlementDb,
    broker,
    brokerGoesAway: () => proxy.refuse(),
    brokerComesBack: () => proxy.accept(),
    settlementLosesItsNextAck: () => accident(settlement, 'ack'),
    intakeDiesBeforeSettling: () => accident(intake, 'confirm'),
    log: () => `${intake.log()}\n${settlement.log()}`,
  };
}

async function createDatabase(serverUrl: string, name: string, cleanup: Cleanup): Promise<Sql> {
  const sql = await temporaryDatabase(serverUrl, name, cleanup);
  await sql.rows(CREATE_DELIVERIES);
  return sql;
}

function deleteTopology(broker: BrokerClient): Promise<void> {
  return broker.deleteAll([INTAKE_QUEUE, SETTLEMENT_QUEUE], [CLAIMS_EXCHANGE]);
}
