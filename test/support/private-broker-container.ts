import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { brokerAnswers } from './broker-answers';
import { freePorts } from './free-ports';
import type { PrivateBroker, PrivateBrokerOptions } from './private-broker';
import { forgetControl, registerControl } from './queue-depth';
import { waitFor } from './wait-for';

const run = promisify(execFile);
const docker = async (...args: string[]) => (await run('docker', args, { timeout: 180_000 })).stdout;

/** For machines without an installed rabbitmq-server: the same tool on a container. */
export async function startBrokerContainer({ config = '' }: PrivateBrokerOptions): Promise<PrivateBroker> {
  await docker('info').catch((cause) => {
    throw new Error('No private broker: install rabbitmq-server, or start Docker', { cause });
  });
  const name = `private-broker-${randomBytes(4).toString('hex')}`;
  const [port = 0] = await freePorts(1);
  const url = `amqp://guest:guest@127.0.0.1:${port}`;
  const folder = mkdtempSync(join(tmpdir(), 'private-broker-'));
  const configFile = join(folder, 'rabbitmq.conf');
  // From outside the container `guest` does not come from localhost.
  writeFileSync(configFile, `loopback_users = none\n${config}\n`, { mode: 0o644 });

  const comesUp = () =>
    waitFor(`RabbitMQ on port ${port}`, () => brokerAnswers(url), { timeout: 60_000, interval: 100 });
  const ctl = (...args: string[]) => docker('exec', name, 'rabbitmqctl', ...args);
  const start = async () => {
    await docker('start', name);
    await comesUp();
  };
  const close = async () => {
    forgetControl(url);
    await docker('rm', '--force', '--volumes', name).catch(() => undefined);
    rmSync(folder, { recursive: true, force: true });
  };

  try {
    await docker(
      ...['run', '--detach', '--name', name, '--hostname', name, '--publish', `127.0.0.1:${port}:5672`],
      ...['--volume', `${configFile}:/etc/rabbitmq/conf.d/90-test.conf:ro`, 'rabbitmq:3'],
    );
    await comesUp();
  } catch (error) {
    await close();
    throw error;
  }
  registerControl(url, { file: 'docker', args: ['exec', '-i', name, 'rabbitmqctl'] });
  return {
    url,
    port,
    ctl,
    start,
    stopApp: async () => void (await ctl('stop_app')),
    async startApp() {
      await ctl('start_app');
      await comesUp();
    },
    async restart() {
      await docker('stop', '--time', '30', name);
      await start();
    },
    kill: async () => void (await docker('kill', name)),
    close,
  };
}
