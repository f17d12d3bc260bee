import { ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { until } from './narrator';

const sample = join(__dirname, '..');

/** One of the two services, run as its own `main.ts` says, in a process that can be killed. */
export class ServiceProcess {
  private child: ChildProcess | undefined;
  private output = '';

  constructor(
    private readonly name: 'intake' | 'settlement',
    private readonly env: Record<string, string>,
  ) {}

  async start(): Promise<void> {
    this.output = '';
    const child = fork(join(sample, this.name, 'main.ts'), {
      execArgv: ['-r', join(sample, '../register.cjs'), '-r', join(__dirname, 'preload.ts')],
      env: { ...process.env, NO_COLOR: '1', ...this.env },
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    });
    this.child = child;
    for (const stream of [child.stdout, child.stderr]) {
      stream?.on('data', (chunk: Buffer) => (this.output += chunk.toString()));
    }
    const isUp = () => {
      if (hasEnded(child)) throw new Error(`${this.name} did not start\n${this.output}`);
      return this.output.includes('is up');
    };
    // Long, for a busy machine.
    await until(`${this.name} is up`, isUp, 60);
  }

  /** Arms a SIGKILL at that moment. Resolves when the process is gone. */
  async dieInsteadOf(strike: 'ack' | 'confirm'): Promise<{ happened: Promise<void> }> {
    const { child } = this;
    if (!child) throw new Error(`${this.name} is not running`);
    const happened = once(child, 'exit').then(([, signal]) => {
      if (signal !== 'SIGKILL') throw new Error(`${this.name} ended by itself instead of being killed`);
    });
    // The answer says that it is armed.
    child.send({ dieInsteadOf: strike });
    await once(child, 'message');
    return { happened };
  }

  async stop(): Promise<void> {
    const { child } = this;
    if (!child || hasEnded(child)) return;
    const exited = once(child, 'exit');
    child.kill('SIGTERM');
    const tooSlow = setTimeout(() => child.kill('SIGKILL'), 5000);
    await exited;
    clearTimeout(tooSlow);
  }

  log(): string {
    return `--- ${this.name}\n${this.output}`;
  }
}

const hasEnded = (child: ChildProcess) => child.exitCode !== null || child.signalCode !== null;
