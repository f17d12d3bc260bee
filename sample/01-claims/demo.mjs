/**
 * `npm run demo`: the story of demo/story.ts, told and checked. Needs nothing but Node, or real servers where DATABASE_URL
 * and AMQP_URL are set. `--without-inbox` shows what happens otherwise.
 */
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);
require('../register.cjs');

const stage = await require('./demo/prepare.ts').prepare();
if (stage.withoutInbox) require('./demo/without-inbox.ts').leaveOffIdempotent();
await require('./demo/tell.ts').tell(stage);
