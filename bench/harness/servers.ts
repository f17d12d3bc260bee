import { amqpUrl, databaseUrl } from '../../test/services/server-urls';

export const DATABASE_URL = databaseUrl();
export const AMQP_URL = amqpUrl();
