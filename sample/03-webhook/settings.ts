/** What differs from environment to environment. */
export const settings = {
  databaseUrl: process.env.DATABASE_URL ?? 'postgres://postgres:postgres@127.0.0.1:5432/postgres',
  port: Number(process.env.PORT ?? 3003),
};
