import { Client } from 'pg';

let statements = 0;
// eslint-disable-next-line @typescript-eslint/unbound-method -- called with the client below
const query = Client.prototype.query as (...args: unknown[]) => unknown;
Client.prototype.query = function (this: Client, ...args: unknown[]) {
  // Wake-ups are sent on a connection of their own, a few for many commits.
  if (!String(args[0]).includes('pg_notify')) statements++;
  return query.apply(this, args);
} as typeof Client.prototype.query;

/** Statements that this process has sent to PostgreSQL so far, BEGIN and COMMIT included. */
export const countStatements = (): number => statements;
