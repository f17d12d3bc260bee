/** What differs from environment to environment. */
export const settings = {
  databaseUrl: process.env.DATABASE_URL ?? 'postgres://postgres:postgres@127.0.0.1:5432/postgres',
  /** When night is. The demo has nights every few seconds. */
  nightly: process.env.NIGHTLY ?? '0 0 3 * * *',
  /** How long one run keeps others from running: longer than the clocks of the processes differ, shorter than a day. */
  atLeast: process.env.AT_LEAST_MS ? Number(process.env.AT_LEAST_MS) : 60_000,
};
