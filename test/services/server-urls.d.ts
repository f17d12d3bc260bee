export const DEFAULT_DATABASE_URL: string;
export const DEFAULT_AMQP_URL: string;
/** Data, logs and URLs of the servers that `npm run services` started by itself. */
export const servicesFolder: string;
export const urlsFile: string;
export function databaseUrl(): string;
export function amqpUrl(): string;
