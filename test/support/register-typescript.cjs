/**
 * `node -r test/support/register-typescript.cjs fixture.ts`: runs the project's TypeScript as it stands, with .swcrc (the
 * settings that Jest uses too), from whatever folder.
 *
 * What is transpiled is kept under node_modules/.cache, so that a warm start loads no compiler at all. Child processes
 * are started by the dozen in the crash tests; a general register hook costs each of them about a third of a second.
 */
const { createHash } = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');

const root = path.resolve(module.filename, '../../..');
const swcrc = path.join(root, '.swcrc');
const cacheFolder = path.join(root, 'node_modules/.cache/test-typescript');
const salt = [
  fs.readFileSync(swcrc, 'utf8'),
  JSON.parse(fs.readFileSync(path.join(root, 'node_modules/@swc/core/package.json'), 'utf8')).version,
].join('\n');

// Stack traces of fixtures show TypeScript lines (the maps are inline).
process.setSourceMapsEnabled(true);

require.extensions['.ts'] = (loaded, filename) => {
  const source = fs.readFileSync(filename, 'utf8');
  const key = createHash('sha1').update(`${salt}\n${filename}\n${source}`).digest('hex');
  const cached = path.join(cacheFolder, `${key}.js`);
  loaded._compile(read(cached) ?? transpile(source, filename, cached), filename);
};

function read(file) {
  try {
    return fs.readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
}

function transpile(source, filename, cached) {
  const { code } = require('@swc/core').transformSync(source, {
    filename,
    root,
    configFile: swcrc,
    swcrc: false,
  });
  try {
    fs.mkdirSync(cacheFolder, { recursive: true });
    // Several children may write the same file at once: a rename is atomic.
    const temporary = `${cached}.${process.pid}`;
    fs.writeFileSync(temporary, code);
    fs.renameSync(temporary, cached);
  } catch {
    // A read-only installation works too, only slower.
  }
  return code;
}
