import { spawnSync } from 'node:child_process';

function asRoot(command, ...args) {
  const root = process.getuid?.() === 0;
  const options = { stdio: 'inherit', env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' } };
  return root
    ? spawnSync(command, args, options)
    : spawnSync('sudo', ['-n', '-E', command, ...args], options);
}

/** apt-get is there, and we may use it without being asked for a password. */
export function mayInstallPackages() {
  if (spawnSync('apt-get', ['--version'], { stdio: 'ignore' }).status !== 0) return false;
  return process.getuid?.() === 0 || spawnSync('sudo', ['-n', 'true'], { stdio: 'ignore' }).status === 0;
}

export function installPackage(name) {
  asRoot('apt-get', 'update', '--quiet=2');
  return asRoot('apt-get', 'install', '--yes', '--quiet=2', '--no-install-recommends', name).status === 0;
}
