import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';

const root = resolve(import.meta.dirname, '../..');
const notCopied = new Set(['node_modules', '.git', 'dist', 'coverage', '.cache']);

/** A copy of the repository in a temporary folder, in which one file at a time is broken. Nothing is broken in place. */
export class Workshop {
  static async open() {
    const folder = await mkdtemp(join(tmpdir(), 'broken-on-purpose-'));
    await cp(root, folder, { recursive: true, filter: (source) => !notCopied.has(basename(source)) });
    await symlink(join(root, 'node_modules'), join(folder, 'node_modules'), 'junction');
    return new Workshop(folder);
  }

  constructor(folder) {
    this.folder = folder;
  }

  /** Applies the mutation, does the work, and takes it back. */
  async withMutation({ file, also = [], ...first }, work) {
    const path = join(this.folder, file);
    const original = await readFile(path, 'utf8').catch(() => undefined);
    if (original === undefined) throw new MutationError(`there is no ${file}`);
    let broken = original;
    for (const { replace, with: replacement } of [first, ...also]) {
      const found = broken.split(replace).length - 1;
      if (found !== 1) throw new MutationError(`the text occurs ${found} times in ${file}, not once`);
      if (replace === replacement) throw new MutationError('the mutation changes nothing');
      // A function, because a string may hold $ patterns.
      broken = broken.replace(replace, () => replacement);
    }
    try {
      await writeFile(path, broken);
      return await work();
    } finally {
      await writeFile(path, original);
    }
  }

  close() {
    return rm(this.folder, { recursive: true, force: true });
  }
}

/** The list of mutations no longer fits the code. */
export class MutationError extends Error {}
