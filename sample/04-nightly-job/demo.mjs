/**
 * `node sample/04-nightly-job/demo.mjs`: three processes with one nightly job, which runs once a night. Works on the server
 * of DATABASE_URL, or else on a PostgreSQL out of an npm package. Fails when a night has no run, or more than one.
 */
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);
require('../register.cjs');
await require('./demo/nights.ts').nights();
