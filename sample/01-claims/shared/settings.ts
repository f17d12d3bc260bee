/** What differs from environment to environment. Plain variables keep the sample short. */
export const settings = {
  databaseUrl: process.env.DATABASE_URL ?? 'postgres://postgres:postgres@127.0.0.1:5432/postgres',
  amqpUrl: process.env.AMQP_URL ?? 'amqp://guest:guest@127.0.0.1:5672',
  port: Number(process.env.PORT ?? 3000),
  /** In front of all exchange and queue names, so that several environments can share a broker. */
  prefix: process.env.CLAIMS_PREFIX ?? '',
};
