import { amqpUrl, databaseUrl } from '../services/server-urls';

/** PostgreSQL of the tests: a login that may create databases. */
export const DATABASE_URL = databaseUrl();

/** RabbitMQ of the tests. */
export const AMQP_URL = amqpUrl();
