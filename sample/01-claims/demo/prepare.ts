import { randomBytes } from 'node:crypto';
import { Cleanup } from '../../shared/cleanup';
import { startPostgres } from '../../shared/embedded-postgres';
import { FakeBroker } from '../../shared/fake-broker';

/** What is there before the curtain rises. */
export interface Stage {
  cleanup: Cleanup;
  withoutInbox: boolean;
  /** Real servers, where the environment names them. */
  servers?: { databaseUrl: string; amqpUrl: string };
  /** Otherwise the in-process broker; the database is in DATABASE_URL then. */
  fakeBroker?: FakeBroker;
}

/**
 * Starts what has to be started, and sets the environment. No service may be loaded before: they read their settings when
 * they are loaded, and the AMQP client keeps whichever `amqplib` it finds.
 */
export async function prepare(): Promise<Stage> {
  const cleanup = new Cleanup();
  const withoutInbox = process.argv.includes('--without-inbox');
  const { DATABASE_URL: databaseUrl, AMQP_URL: amqpUrl } = process.env;
  if (databaseUrl && amqpUrl) {
    // Names of its own on a broker that others use too.
    process.env.CLAIMS_PREFIX = `claims-demo-${randomBytes(4).toString('hex')}.`;
    return { cleanup, withoutInbox, servers: { databaseUrl, amqpUrl } };
  }
  if (databaseUrl || amqpUrl) throw new Error('Set both DATABASE_URL and AMQP_URL, or neither');

  const postgres = await startPostgres();
  cleanup.add(() => postgres.stop());
  process.env.DATABASE_URL = postgres.url;
  process.env.AMQP_URL = FakeBroker.url;
  const fakeBroker = new FakeBroker();
  fakeBroker.install();
  return { cleanup, withoutInbox, fakeBroker };
}
