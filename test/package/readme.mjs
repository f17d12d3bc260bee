import { readFile } from 'node:fs/promises';

/** What a new user copies: the first block that is fenced with this line, up to the closing fence. */
const fence = '```ts title="app.module.ts"';

export async function quickStart(readmeFile) {
  const readme = (await readFile(readmeFile, 'utf8')).replaceAll('\r\n', '\n');
  const [, after] = readme.split(`\n${fence}\n`);
  if (after === undefined) throw new Error(`README.md has no block that begins with ${fence}`);
  const code = after.slice(0, after.indexOf('```'));
  // The line above it says what to install.
  const install = /^npm install (nestjs-inbox-outbox .+)$/m.exec(readme);
  if (!install) throw new Error('README.md has no line "npm install nestjs-inbox-outbox …"');
  return { code, lines: code.trimEnd().split('\n').length, packages: install[1].split(/\s+/).slice(1) };
}
