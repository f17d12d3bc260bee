/**
 * A RabbitMQ node of one's own: name, ports, data, cookie and plugins in one folder, without touching the system's node.
 * Used by `npm run services` and by the tests that stop and restart a broker.
 */
const { spawn } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');

/**
 * RabbitMQ's own scripts. Debian's /usr/sbin/rabbitmq-server is a wrapper that switches to the user `rabbitmq` and so
 * drops our settings; the scripts behind it do not.
 */
function findRabbit() {
  const debian = '/usr/lib/rabbitmq/lib';
  const folders = fs.existsSync(debian)
    ? fs.readdirSync(debian).map((name) => path.join(debian, name, 'sbin'))
    : [];
  folders.push('/opt/homebrew/opt/rabbitmq/sbin', '/usr/local/opt/rabbitmq/sbin');
  folders.push(...(process.env.PATH ?? '').split(path.delimiter).filter(Boolean));
  for (const sbin of folders) {
    const script = path.join(sbin, 'rabbitmq-server');
    if (fs.existsSync(script) && !fs.realpathSync(script).endsWith('rabbitmq-script-wrapper'))
      return { sbin };
  }
  return undefined;
}

/** Writes the node's configuration and returns the environment in which its scripts find everything in `folder`. */
function nodeEnvironment({ folder, name, port, distPort, epmdPort, config = '' }) {
  fs.mkdirSync(folder, { recursive: true, mode: 0o700 });
  const file = (fileName, text) => {
    const full = path.join(folder, fileName);
    fs.writeFileSync(full, text);
    return full;
  };
  return {
    ...process.env,
    HOME: folder, // the Erlang cookie lives there
    RABBITMQ_CONF_ENV_FILE: file('rabbitmq-env.conf', ''), // not /etc/rabbitmq's
    RABBITMQ_CONFIG_FILE: file('rabbitmq.conf', `log.console = false\n${config}\n`),
    RABBITMQ_ADVANCED_CONFIG_FILE: path.join(folder, 'advanced.config'), // need not exist
    RABBITMQ_ENABLED_PLUGINS_FILE: file('enabled_plugins', '[].'),
    RABBITMQ_NODENAME: `${name}@localhost`,
    RABBITMQ_NODE_IP_ADDRESS: '127.0.0.1',
    RABBITMQ_NODE_PORT: String(port),
    RABBITMQ_DIST_PORT: String(distPort),
    ERL_EPMD_ADDRESS: '127.0.0.1',
    ...(epmdPort ? { ERL_EPMD_PORT: String(epmdPort) } : {}),
    RABBITMQ_MNESIA_BASE: path.join(folder, 'data'),
    RABBITMQ_LOG_BASE: path.join(folder, 'log'),
    RABBITMQ_PID_FILE: path.join(folder, 'pid'),
    // A test broker shares few cores with the tests: schedulers that have nothing to do must not spin.
    RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS: '+sbwt none +sbwtdcpu none +sbwtdio none',
    // The script then *becomes* the node: the pid is the node's, and signals reach it.
    RABBITMQ_ALLOW_INPUT: '1',
  };
}

/** Starts the node in a process group of its own; the caller waits until it answers. */
function spawnNode({ sbin, folder, env }) {
  const log = fs.openSync(path.join(folder, 'console.log'), 'a');
  const child = spawn(path.join(sbin, 'rabbitmq-server'), [], {
    env: { ...env, RABBITMQ_SERVER_START_ARGS: '-noinput' },
    cwd: folder,
    detached: true,
    stdio: ['ignore', log, log],
  });
  fs.closeSync(log);
  return child;
}

module.exports = { findRabbit, nodeEnvironment, spawnNode };
