/**
 * `node sample/04-nightly-job/take-over.mjs`: three processes with an outbox, whose leader is killed with SIGKILL and with
 * SIGTERM. Prints how long it took until another led, and fails when that was too long. Works on the servers of DATABASE_URL
 * and AMQP_URL; for each that is not set there is a stand-in out of an npm package.
 */
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);
require('../register.cjs');
await require('./demo/take-over.ts').takeOver();
