/** `node -r ./bench/register.cjs file.ts` runs TypeScript as it stands, with `nestjs-inbox-outbox` from the sources. */
const { join } = require('node:path');

process.env.SWC_NODE_PROJECT = join(module.path, 'tsconfig.json');
require('@swc-node/register');
