import { spawnSync } from 'node:child_process';

function docker(...args) {
  return spawnSync('docker', args, { encoding: 'utf8', timeout: 300_000 });
}

/** The client alone is not enough: an engine has to answer. */
export function dockerAnswers() {
  return docker('info', '--format', '{{.ServerVersion}}').status === 0;
}

/** Starts the container, the one of last time if it is still there. It listens on this machine only. */
export function startContainer({ name, container, port: innerPort }, port) {
  const containerName = `nestjs-inbox-outbox-${name.toLowerCase()}-${port}`;
  if (docker('start', containerName).status === 0) return containerName;
  const env = Object.entries(container.env).flatMap(([key, value]) => ['--env', `${key}=${value}`]);
  const publish = `127.0.0.1:${port}:${innerPort}`;
  const { status, stderr } = docker(
    ...['run', '--detach', '--name', containerName, '--publish', publish],
    ...[...env, container.image],
  );
  if (status !== 0) throw new Error(`docker run ${container.image} failed: ${stderr.trim()}`);
  return containerName;
}
