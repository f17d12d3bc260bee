import { ChildProcess, execFile, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { nodeEnvironment, spawnNode } from '../services/rabbitmq-node';
import { BrokerConsole } from './broker-console';
import { brokerAnswers } from './broker-answers';
import { freePorts } from './free-ports';
import type { PrivateBroker, PrivateBrokerOptions } from './private-broker';
import { endServerWithThisProcess } from './process-registry';
import { forgetControl, registerControl } from './queue-depth';
import { ServerProcess } from './server-process';

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
  epmd.once('exit', endServerWithThisProcess(epmd));
  return epmd;
}

class BrokerNode implements PrivateBroker {
  readonly url: string;
  private readonly process: ServerProcess;
  private readonly console: BrokerConsole;

  constructor(
    private readonly sbin: string,
    private readonly folder: string,
    readonly port: number,
    private readonly env: NodeJS.ProcessEnv,
    private readonly epmd: ChildProcess,
  ) {
    const url = `amqp://guest:guest@127.0.0.1:${port}`;
    this.url = url;
    this.process = new ServerProcess({
      name: `RabbitMQ on port ${port}`,
      logFile: join(folder, 'console.log'),
      spawn: () => spawnNode({ sbin, folder, env }),
      answers: () => brokerAnswers(url),
    });
    const control = { file: join(sbin, 'rabbitmqctl'), options: { env, cwd: folder } };
    this.console = new BrokerConsole(control);
    registerControl(url, control);
  }

  start(): Promise<void> {
    return this.process.start();
  }

  async stopApp(): Promise<void> {
    await this.console.evaluate('rabbit:stop().'); // what rabbitmqctl stop_app does, but sooner
  }

  async startApp(): Promise<void> {
    await this.console.evaluate('rabbit:start().');
    await this.process.comesUp();
  }

  async restart(): Promise<void> {
    await this.process.end('SIGTERM');
    await this.start();
  }

  async kill(): Promise<void> {
    // A queue declared a moment before a crash may be lost with its messages, since RabbitMQ writes definitions out later.
    // Tests are about messages, so the definitions are brought to disk first.
    await this.console.evaluate('mnesia:dump_log().').catch(() => undefined);
    await this.process.end('SIGKILL');
  }

  async ctl(...args: string[]): Promise<string> {
    const options = { env: this.env, cwd: this.folder, timeout: 30_000 };
    return (await run(join(this.sbin, 'rabbitmqctl'), args, options)).stdout;
  }

  async close(): Promise<void> {
    forgetControl(this.url);
    this.console.end();
    await this.process.end('SIGKILL');
    if (this.epmd.exitCode === null && this.epmd.signalCode === null) {
      const exited = once(this.epmd, 'exit');
      this.epmd.kill('SIGKILL');
      await exited;
    }
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }
}
