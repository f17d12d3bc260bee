import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { run } from './run.mjs';

/** Builds and packs, and gives the path of the tarball. */
export async function pack(root, folder) {
  await run('npm', ['run', 'build'], { cwd: root });
  const { stdout } = await run('npm', ['pack', '--json', '--pack-destination', folder], { cwd: root });
  const [{ filename, files }] = JSON.parse(stdout.slice(stdout.indexOf('[')));
  return { tarball: join(folder, filename), files: files.map(({ path }) => path) };
}

const wanted = [
  /^package\.json$/,
  /^README\.md$/,
  /^LICENSE$/,
  /^CHANGELOG\.md$/,
  /^sql\/.+\.sql$/,
  /^dist\/.+\.(js|d\.ts)$/,
];
const mustHave = ['package.json', 'README.md', 'LICENSE', 'CHANGELOG.md', 'dist/index.js', 'dist/index.d.ts'];

/** Files that have no business in the package, and such as are missing. */
export function misplaced(files) {
  const surplus = files.filter(
    (file) => !wanted.some((pattern) => pattern.test(file)) || /\b(spec|test)\b/.test(file),
  );
  const missing = mustHave.filter((file) => !files.includes(file));
  return [
    ...surplus.map((file) => `${file} should not be there`),
    ...missing.map((file) => `${file} is missing`),
  ];
}

/** Paths of the machine that built it: they say nothing to a user, and tell more than they should. */
export async function absolutePaths(folder, root) {
  const found = [];
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath, entry.name);
    const text = await readFile(path, 'utf8');
    for (const pattern of [root, 'file://', '/home/', '/Users/']) {
      if (text.includes(pattern)) found.push(`${path.slice(folder.length + 1)} contains ${pattern}`);
    }
  }
  return found;
}
