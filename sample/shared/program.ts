import { ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { basename, join } from 'node:path';
import { until } from './narrator';

export interface ProgramOptions {
  /** In addition to the demo's own environment; `undefined` takes a variable away. */
  env?: Record<string, string | undefined>;
  /** TypeScript files to load before the program. */
  preload?: readonly string[];
}

/**
 * One program of a sample, in a process of its own that can be killed. It is up when it logs "is up", and ends with the demo,
 * however that ends.
 */
export class Program {
  private output = '';

  private constructor(private readonly child: ChildProcess) {
    for (const stream of [child.stdout, child.stderr]) {
      stream?.on('data', (chunk: Buffer) => (this.output += chunk.toString()));
    }
  }

  /** @param file with its whole path */
  static async start(file: string, { env, preload = [] }: ProgramOptions = {}): Promise<Program> {
    const required = [join(__dirname, '../register.cjs'), join(__dirname, 'end-with-demo.cjs'), ...preload];
    const child = fork(file, {
      execArgv: required.flatMap((each) => ['-r', each]),
      env: { ...process.env, NO_COLOR: '1', ...env },
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    });
    const program = new Program(child);
    const isUp = () => {
      if (program.hasEnded) throw new Error(`${basename(file)} did not start\n${program.output}`);
      return program.output.includes('is up');
    };
    try {
      // Long, for a busy machine.
      await until(`${basename(file)} is up`, isUp, 60);
    } catch (error) {
      child.kill('SIGKILL');
      throw error;
    }
    return program;
  }

  get pid(): number {
    return this.child.pid ?? -1;
  }

  get log(): string {
    return this.output;
  }

  kill(signal: NodeJS.Signals): void {
    this.child.kill(signal);
  }

  /** Sends a message to what was preloaded, and waits for its answer. */
  async ask(message: object): Promise<void> {
    const answered = once(this.child, 'message');
    this.child.send(message);
    await answered;
  }

  /** Resolves with the signal that ended the program, or `null` when it ended by itself. */
  async ended(): Promise<NodeJS.Signals | null> {
    if (!this.hasEnded) await once(this.child, 'exit');
    return this.child.signalCode;
  }

  /** Asks it to stop, and after 5 s does not ask any more. */
  async stop(): Promise<void> {
    if (this.hasEnded) return;
    this.kill('SIGTERM');
    const tooSlow = setTimeout(() => this.kill('SIGKILL'), 5000);
    await this.ended();
    clearTimeout(tooSlow);
  }

  private get hasEnded(): boolean {
    return this.child.exitCode !== null || this.child.signalCode !== null;
  }
}
