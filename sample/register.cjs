/**
 * `node -r ./sample/register.cjs file.ts` runs TypeScript as it stands.
 *
 * The samples import `nestjs-inbox-outbox` as any application does. In this repository tsconfig.json points that name to
 * the library's sources, so that no build comes before a demo.
 */
const { join } = require('node:path');

process.env.SWC_NODE_PROJECT = join(module.path, 'tsconfig.json');
require('@swc-node/register');
