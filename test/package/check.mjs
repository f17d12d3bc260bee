/**
 * What a new user gets: the packed package in an empty Nest project, with the code that README.md shows, on real servers.
 *
 *     node test/package/check.mjs [--readme FILE] [--keep]
 */
import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { publint } from 'publint';
import { formatMessage } from 'publint/utils';
import { checkMailer } from './mailer.mjs';
import { compile, complaintsAboutDeclarations, newProject } from './new-project.mjs';
import { quickStart } from './readme.mjs';
import { deliverTwice, uniqueNames } from './run-app.mjs';
import { run } from './run.mjs';
import { absolutePaths, misplaced, pack } from './tarball.mjs';

const MAX_LINES = 30;
const PUBLIC = ['InboxOutboxModule', 'Idempotent', 'OutboxService', 'OutboxDispatcher', 'Transactions'];

const root = resolve(import.meta.dirname, '../..');
const { values: options } = parseArgs({ options: { readme: { type: 'string' }, keep: { type: 'boolean' } } });
const folder = await mkdtemp(join(tmpdir(), 'package-check-'));
let bad = 0;

try {
  await checkAll();
} catch (error) {
  report('goes through to the end', [error instanceof Error ? error.message : String(error)]);
} finally {
  if (options.keep) console.log(`The project is in ${folder}`);
  else await rm(folder, { recursive: true, force: true });
}
process.exitCode = bad > 0 ? 1 : 0;

async function checkAll() {
  const { tarball, files } = await pack(root, folder);
  report(`the tarball holds what it should, ${files.length} files`, misplaced(files));
  const { buffer } = new Uint8Array(await readFile(tarball));
  const { messages, pkg } = await publint({ pack: { tarball: buffer }, strict: true });
  report(
    'publint has nothing to say',
    messages.map((message) => formatMessage(message, pkg, { color: false })),
  );

  const { code, lines, packages } = await quickStart(options.readme ?? join(root, 'README.md'));
  report(`README's quick start has ${lines} lines`, lines <= MAX_LINES ? [] : [`more than ${MAX_LINES}`]);

  const names = uniqueNames();
  const project = join(folder, 'project');
  await mkdir(project);
  await newProject(project, tarball, packages, renamed(code, names));
  report(
    'no paths of this machine',
    await absolutePaths(join(project, 'node_modules/nestjs-inbox-outbox'), root),
  );
  await compile(project);
  report('the quick start compiles in a strict project', []);
  report('the declarations are sound', await complaintsAboutDeclarations(project));

  const list = PUBLIC.join(', ');
  const test = `if (![${list}].every((each) => typeof each === 'function')) process.exit(1)`;
  const node = (...args) => run(process.execPath, args, { cwd: project });
  await node('-e', `const { ${list} } = require('nestjs-inbox-outbox'); ${test}`);
  report('require() finds what is public', []);
  await node('--input-type=module', '-e', `import { ${list} } from 'nestjs-inbox-outbox'; ${test}`);
  report('import finds what is public', []);

  const { cases, others, leftInQueue, exit } = await deliverTwice(project, names);
  report('delivered twice, it takes effect once', cases === 1 ? [] : [`${cases} times`]);
  report('another message takes effect too', others === 1 ? [] : [`${others} times`]);
  report('all deliveries are acked', leftInQueue === 0 ? [] : [`${leftInQueue} are back in the queue`]);
  report('the app ends on SIGTERM', exit === 'SIGTERM' || exit === 0 ? [] : [String(exit)]);

  await checkMailer(project, report);
}

/** The broker is shared: the quick start's two names get a prefix. */
function renamed(code, { exchange, queue }) {
  for (const name of ["'claims'", "'settlement'"]) {
    if (!code.includes(name))
      throw new Error(`The quick start has no ${name}, so this check cannot rename it`);
  }
  return code.replaceAll("'claims'", `'${exchange}'`).replaceAll("'settlement'", `'${queue}'`);
}

function report(what, complaints) {
  if (complaints.length > 0) bad++;
  console.log(`${complaints.length > 0 ? '✗' : '✓'} ${what}`);
  for (const complaint of complaints) console.log(`    ${complaint}`);
}
