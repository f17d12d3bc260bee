import { ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { until } from '../../01-claims/demo/narrator';

/** One of several processes with the same program, which can be killed. */
export class ReplicaProcess {
  private output = '';

  private constructor(private readonly child: ChildProcess) {
    for (const stream of [child.stdout, child.stderr]) {
      stream?.on('data', (chunk: Buffer) => (this.output += chunk.toString()));
    }
  }

  /** @param file relative to the sample; resolves when it says that it is up */
  static async start(file: string, env: Record<string, string>): Promise<ReplicaProcess> {
    const child = fork(join(__dirname, '..', file), {
      execArgv: ['-r', join(__dirname, '../../register.cjs'), '-r', join(__dirname, 'end-with-demo.cjs')],
      env: { ...process.env, NO_COLOR: '1', ...env },
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    });
    const replica = new ReplicaProcess(child);
    const isUp = () => {
      if (replica.hasEnded) throw new Error(`${file} did not start\n${replica.output}`);
      return replica.output.includes('is up');
    };
    // Long, for a busy machine.
    await until(`${file} is up`, isUp, 60);
    return replica;
  }

  get pid(): number {
    return this.child.pid ?? -1;
  }

  get log(): string {
    return this.output;
  }

  signal(signal: NodeJS.Signals): void {
    this.child.kill(signal);
  }

  async end(): Promise<void> {
    if (this.hasEnded) return;
    const exited = once(this.child, 'exit');
    this.child.kill('SIGKILL');
    await exited;
  }

  private get hasEnded(): boolean {
    return this.child.exitCode !== null || this.child.signalCode !== null;
  }
}
