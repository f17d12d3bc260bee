/**
 * Breaks each guarantee on purpose, in a copy of the repository, and requires that its test fails.
 *
 *     node test/broken-on-purpose/run.mjs [--only TEXT] [--baseline] [--jobs N]
 *
 * `--baseline` first requires that each test passes while nothing is broken (`npm test` has usually just shown that).
 */
import { parseArgs } from 'node:util';
import { runJest } from './jest-verdict.mjs';
import { judge } from './judge.mjs';
import { mutations } from './mutations.mjs';
import { Workshop } from './workshop.mjs';

const { values: options } = parseArgs({
  options: {
    only: { type: 'string' },
    baseline: { type: 'boolean' },
    jobs: { type: 'string', default: '2' },
  },
});
/**
 * What depends on how processes interleave can pass once although it is broken. More than three times in a row is a test that
 * does not notice.
 */
const RUNS = 3;

const chosen = mutations.filter(({ guarantee, why }) => `${guarantee} ${why}`.includes(options.only ?? ''));
const queue = [...chosen];
let noticed = 0;

await Promise.all(Array.from({ length: Number(options.jobs) }, work));
console.log(`\n${noticed} of ${chosen.length} noticed`);
// An empty list proves nothing.
process.exitCode = noticed === chosen.length && noticed > 0 ? 0 : 1;

async function work() {
  if (queue.length === 0) return;
  const workshop = await Workshop.open();
  try {
    for (let mutation = queue.shift(); mutation; mutation = queue.shift()) {
      const started = Date.now();
      const result = (await complaintWithoutIt(workshop, mutation)) ?? (await verdict(workshop, mutation));
      if (result.noticed) noticed++;
      print(mutation, result, Date.now() - started);
    }
  } finally {
    await workshop.close();
  }
}

async function verdict(workshop, mutation) {
  let run = 1;
  let result = await judge(workshop, mutation);
  for (; result.mayDiffer && run < RUNS; run++) result = await judge(workshop, mutation);
  return run === 1 ? result : { ...result, text: `in run ${run}: ${result.text}` };
}

async function complaintWithoutIt(workshop, { test }) {
  if (!options.baseline) return undefined;
  const result = await runJest(workshop.folder, test);
  return result.verdict === 'passed'
    ? undefined
    : { noticed: false, text: `FAILS UNBROKEN TOO: ${result.detail}` };
}

function print({ guarantee, why }, result, milliseconds) {
  const seconds = `${(milliseconds / 1000).toFixed(1)} s`;
  console.log(`${result.noticed ? '✓' : '✗'} ${guarantee.padEnd(10)} ${seconds.padStart(7)}  ${why}`);
  console.log(`${' '.repeat(21)}${result.text.slice(0, 160)}`);
}
