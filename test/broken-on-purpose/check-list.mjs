/**
 * Says which mutations no longer fit the code: `node test/broken-on-purpose/check-list.mjs`. It runs none of them, so it is
 * quick enough for every change (test/unit/support/mutation-list.spec.ts).
 */
import { access, readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { mutations } from './mutations.mjs';

const root = resolve(import.meta.dirname, '../..');

for (const { guarantee, why, file, also = [], test, ...first } of mutations) {
  const code = await readFile(join(root, file), 'utf8').catch(() => '');
  for (const { replace } of [first, ...also]) {
    const found = code.split(replace).length - 1;
    if (found !== 1)
      complain(guarantee, why, `the text occurs ${found} times in ${file}, not once: ${replace}`);
  }
  await access(join(root, test[0])).catch(() => complain(guarantee, why, `there is no ${test[0]}`));
}

function complain(guarantee, why, what) {
  process.exitCode = 1;
  console.log(`${guarantee} (${why}): ${what}`);
}
