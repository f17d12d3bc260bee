import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';

const COLUMN_LENGTH = 255;

/**
 * Who holds a lock: host and process for people, and a random token per acquisition, since two processes on one host (or
 * two containers with one name and one pid) must not release each other's lock.
 */
export function newLockOwner(): string {
  const token = randomUUID();
  const rest = ` ${process.pid} ${token}`;
  return `${hostname().slice(0, COLUMN_LENGTH - rest.length)}${rest}`;
}
