/**
 * `node sample/02-email-relay/demo.mjs`: users and their confirmation mails, with a mail server that has bad days. Works on
 * the server of DATABASE_URL, or else on a PostgreSQL out of an npm package. Fails when a mail is missing or too many.
 */
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);
require('../register.cjs');
await require('./demo/story.ts').tell();
