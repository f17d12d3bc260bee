import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** The version of the TypeORM that is loaded, for messages. */
export function typeormVersion(): string {
  try {
    const manifest = join(dirname(require.resolve('typeorm')), 'package.json');
    return (JSON.parse(readFileSync(manifest, 'utf8')) as { version: string }).version;
  } catch {
    return '(unknown version)';
  }
}
