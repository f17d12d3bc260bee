import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { resolveIdempotentOptions } from '../../../lib/inbox/idempotent.options';
import { resolveOptions } from '../../../lib/resolved-options';

const readme = readFileSync('README.md', 'utf8');

/** The rows of the table below this heading, by the names in their first cell. */
function namesBelow(heading: string): string[] {
  const section = readme.split(`\n## ${heading}\n`)[1]!.split('\n## ')[0]!;
  const cells = [...section.matchAll(/^\| (`[^|]+)\|/gm)].map(([, cell]) => cell!);
  return cells.flatMap((cell) => {
    // The prefix of the first name in a cell holds for all of them.
    const prefix = /^`(outbox|inbox)\./.exec(cell)?.[1];
    return [...cell.matchAll(/`([\w.]+)`/g)].map(([, name]) =>
      prefix && !name!.includes('.') ? `${prefix}.${name}` : name!,
    );
  });
}

describe('README and the other pages', () => {
  it('has all options of the module in its table, and no others', () => {
    const { outbox, inbox, ...common } = resolveOptions();
    const options = [
      ...Object.keys(common),
      ...Object.keys(outbox).map((name) => `outbox.${name}`),
      ...Object.keys(inbox).map((name) => `inbox.${name}`),
      ...['dataSource', 'schema', 'outboxTable', 'inboxTable', 'lockTable'],
    ];
    expect(namesBelow('Options').sort()).toEqual(options.sort());
  });

  it('has all options of @Idempotent(), and no others', () => {
    const unknown = () => resolveIdempotentOptions({ unknown: 1 } as object, 'Claims.on');
    const [, list] = /one of the options (.*)\.$/.exec(errorOf(unknown)) ?? [];
    // That one is only for RPC handlers, and stands below the table.
    const options = list!.split(', ').filter((name) => name !== 'errorReply');
    expect(namesBelow('Consuming').sort()).toEqual(options.sort());
  });

  it('lists every page of docs/', () => {
    const unlisted = readdirSync('docs').filter((name) => !readme.includes(`](docs/${name})`));
    expect(unlisted).toEqual([]);
  });

  const pages = ['README.md', 'CONTRIBUTING.md', 'CHANGELOG.md', 'bench/README.md'];
  it.each([...pages, ...readdirSync('docs').map((name) => `docs/${name}`)])(
    '%s: every page that it links to exists',
    (file) => {
      const links = [...readFileSync(file, 'utf8').matchAll(/\]\((?!http|#)([^)#]+)/g)];
      const missing = links.filter(([, path]) => !existsSync(join(dirname(file), path!)));
      expect(missing.map(([, path]) => path)).toEqual([]);
    },
  );
});

function errorOf(call: () => unknown): string {
  try {
    call();
    return '';
  } catch (error) {
    return (error as Error).message;
  }
}
