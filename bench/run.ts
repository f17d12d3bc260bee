import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { MeasureReport } from './harness/measure';
import { environment, table } from './harness/report';
import { World } from './harness/world';
import { MEASURES } from './measures';

/**
 * `npm run bench` runs everything and writes BENCHMARKS.md. `-- drain keys` runs only those and writes their sections;
 * `--rounds` (default 9) and `--scale` (default 1) make a run shorter, which does not count and is not written.
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
      if (settings.rounds >= 9 && settings.scale === 1) await writeSection(measure.name, table(report));
    } finally {
      await world.close();
    }
  }
  const missed = reports.flatMap(({ bars }) => bars).filter(({ met }) => !met);
  const invalid = reports.flatMap(({ results }) => results).filter(({ lost, double }) => lost + double > 0);
  console.log(`\n${missed.length} bars missed, ${invalid.length} rows invalid`);
  if (missed.length + invalid.length > 0) process.exitCode = 1;
}

/** A complete run takes an hour, so each measure has a section of its own, which the next run of it replaces. */
async function writeSection(name: string, text: string): Promise<void> {
  const file = join(module.path, 'BENCHMARKS.md');
  const before = await readFile(file, 'utf8').catch(() => '');
  const found = before.matchAll(/^<!-- measure (\S+) -->\n\n([^]*?)(?=\n\n<!-- measure |\s*$(?![^]))/gm);
  const sections = new Map([...found].map((match) => [match[1]!, match[2]!]));
  sections.set(name, `${text}\n\nMeasured on ${new Date().toISOString().slice(0, 10)}.`);
  const inOrder = MEASURES.filter((measure) => sections.has(measure.name)).map(
    (measure) => `<!-- measure ${measure.name} -->\n\n${sections.get(measure.name)}`,
  );
  await writeFile(file, `${[await environment(), ...inOrder].join('\n\n')}\n`);
}

void main();
