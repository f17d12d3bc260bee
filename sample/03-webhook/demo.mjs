/**
 * `node sample/03-webhook/demo.mjs`: a payment provider that repeats its events, and a webhook that counts each once. Works
 * on the server of DATABASE_URL, or else on a PostgreSQL out of an npm package. Fails when money is lost or counted twice.
 */
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);
require('../register.cjs');
await require('./demo/webhook.ts').webhook();
