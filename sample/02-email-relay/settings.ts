/** What differs from environment to environment. Plain variables keep the sample short. */
export const settings = {
  databaseUrl: process.env.DATABASE_URL ?? 'postgres://postgres:postgres@127.0.0.1:5432/postgres',
  port: Number(process.env.PORT ?? 3000),
  /** `smtp` or `ses`. */
  mailBy: process.env.MAIL_BY ?? 'smtp',
  smtpUrl: process.env.SMTP_URL ?? 'smtp://127.0.0.1:2525',
  /** Only to talk to something other than Amazon. */
  sesEndpoint: process.env.SES_ENDPOINT,
  /** The first pause before a mail is tried again. Short in the demo, where nobody wants to wait. */
  firstRetryMs: Number(process.env.MAIL_FIRST_RETRY_MS ?? 10_000),
};
