/**
 * `node sample/04-nightly-job/take-over.mjs`: three processes with an outbox, whose leader is killed with SIGKILL and with
 * SIGTERM. Prints how long it took until another led, and fails when that was too long. Needs PostgreSQL and RabbitMQ
 * (DATABASE_URL and AMQP_URL; default: the usual ports).
 */
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);
require('../register.cjs');
await require('./demo/take-over.ts').takeOver();
