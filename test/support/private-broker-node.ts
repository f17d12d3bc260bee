import { ChildProcess, execFile, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { nodeEnvironment, spawnNode } from '../services/rabbitmq-node';
import { brokerAnswers } from './broker-answers';
import { freePorts } from './free-ports';
import type { PrivateBroker, PrivateBrokerOptions } from './private-broker';
import { endWithThisProcess } from './process-registry';
import { forgetControl, registerControl } from './queue-depth';
import { waitFor } from './wait-for';

const run = promisify(execFile);

export async function startBrokerNode(sbin: string, options: PrivateBrokerOptions): Promise<PrivateBroker> {
  const folder = mkdtempSync(join(tmpdir(), 'private-broker-'));
  const [port = 0, distPort = 0, epmdPort = 0] = await freePorts(3);
  const name = `private-${randomBytes(4).toString('hex')}`;
  const env = nodeEnvironment({ folder, name, port, distPort, epmdPort, config: options.config });
  const broker = new BrokerNode(sbin, folder, port, env, await startEpmd(env));
  try {
    await broker.start();
  } catch (error) {
    await broker.close();
    throw error;
  }
  return broker;
}

/**
 * Nodes find each other through Erlang's port mapper. A node without one starts a daemon that stays for ever; with one of
 * our own, in the foreground and on its own port, nothing stays and the machine's nodes do not learn of ours.
 */
async function startEpmd(env: NodeJS.ProcessEnv): Promise<ChildProcess> {
  const epmd = spawn('epmd', ['-port', String(env.ERL_EPMD_PORT), '-address', '127.0.0.1'], {
    stdio: 'ignore',
  });
  await once(epmd, 'spawn');
  epmd.once('exit', endWithThisProcess(epmd));
  return epmd;
}

class BrokerNode implements PrivateBroker {
  readonly url: string;
  private child: ChildProcess | undefined;

  constructor(
    private readonly sbin: string,
    private readonly folder: string,
    readonly port: number,
    private readonly env: NodeJS.ProcessEnv,
    private readonly epmd: ChildProcess,
  ) {
    this.url = `amqp://guest:guest@127.0.0.1:${port}`;
    registerControl(this.url, (...args) => this.ctl(...args));
  }

  async start(): Promise<void> {
    if (!this.child) {
      const child = spawnNode({ sbin: this.sbin, folder: this.folder, env: this.env });
      this.child = child;
      const release = endWithThisProcess(child);
      child.once('exit', () => {
        release();
        if (this.child === child) this.child = undefined;
      });
    }
    await Promise.race([this.comesUp(), this.failureOf(this.child)]);
  }

  async stopApp(): Promise<void> {
    await this.ctl('stop_app');
  }

  async startApp(): Promise<void> {
    await this.ctl('start_app');
    await this.comesUp();
  }

  async restart(): Promise<void> {
    await this.end('SIGTERM');
    await this.start();
  }

  kill(): Promise<void> {
    return this.end('SIGKILL');
  }

  async ctl(...args: string[]): Promise<string> {
    const { stdout } = await run(join(this.sbin, 'rabbitmqctl'), args, {
      env: this.env,
      cwd: this.folder,
      timeout: 30_000,
    });
    return stdout;
  }

  async close(): Promise<void> {
    forgetControl(this.url);
    await this.end('SIGKILL');
    if (this.epmd.exitCode === null && this.epmd.signalCode === null) {
      const exited = once(this.epmd, 'exit');
      this.epmd.kill('SIGKILL');
      await exited;
    }
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }

  private async end(signal: NodeJS.Signals): Promise<void> {
    const { child } = this;
    if (!child) return;
    const exited = once(child, 'exit');
    child.kill(signal);
    await exited;
  }

  private async comesUp(): Promise<void> {
    await waitFor(`RabbitMQ on port ${this.port}`, () => brokerAnswers(this.url), {
      timeout: 60_000,
      interval: 100,
    });
  }

  private async failureOf(child: ChildProcess): Promise<never> {
    await once(child, 'exit');
    const log = join(this.folder, 'console.log');
    throw new Error(`RabbitMQ ended while starting:\n${existsSync(log) ? readFileSync(log, 'utf8') : ''}`);
  }
}
