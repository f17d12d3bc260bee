import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { MeasureReport } from './harness/measure';
import { environment, table } from './harness/report';
import { World } from './harness/world';
import { MEASURES } from './measures';

/**
 * `npm run bench` runs everything and writes BENCHMARKS.md. `-- drain keys` runs only those and writes nothing; `--rounds`
 * (default 9) and `--scale` (default 1) make a run shorter, which does not count.
 */
async function main(): Promise<void> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { rounds: { type: 'string', default: '9' }, scale: { type: 'string', default: '1' } },
  });
  const settings = { rounds: Number(values.rounds), scale: Number(values.scale) };
  const chosen = MEASURES.filter(({ name }) => positionals.length === 0 || positionals.includes(name));
  const reports: MeasureReport[] = [];
  for (const measure of chosen) {
    const world = await World.open();
    try {
      const report = await measure.run(world, settings);
      reports.push(report);
      console.log(`\n${table(report)}`);
    } finally {
      await world.close();
    }
  }
  const complete = chosen.length === MEASURES.length && settings.rounds >= 9 && settings.scale === 1;
  if (complete) {
    const text = [await environment(), ...reports.map(table)].join('\n\n');
    await writeFile(join(module.path, 'BENCHMARKS.md'), `${text}\n`);
  }
  const missed = reports.flatMap(({ bars }) => bars).filter(({ met }) => !met);
  const invalid = reports.flatMap(({ results }) => results).filter(({ lost, double }) => lost + double > 0);
  console.log(`\n${missed.length} bars missed, ${invalid.length} rows invalid`);
  if (missed.length + invalid.length > 0) process.exitCode = 1;
}

void main();
