import { type ChildProcess, fork } from 'node:child_process';
import { join } from 'node:path';

const folder = join(module.path, '..');

interface Answer {
  readonly id: number;
  readonly result?: unknown;
  readonly error?: string;
}

interface Waiting {
  resolve(result: unknown): void;
  reject(error: Error): void;
}

/** A program of bench/programs or bench/rivals in a process of its own, which answers calls (see serve.mjs). */
export class Program {
  private readonly waiting = new Map<number, Waiting>();
  private calls = 0;
  private output = '';

  private constructor(
    private readonly file: string,
    private readonly child: ChildProcess,
  ) {
    child.on('message', (answer) => this.onAnswer(answer as Answer));
    child.on('exit', (code, signal) => this.onExit(code ?? signal));
    for (const stream of [child.stdout, child.stderr]) {
      stream?.on('data', (text: Buffer) => (this.output = (this.output + text.toString()).slice(-4_000)));
    }
  }

  /** @param file relative to bench/; @param execArgv further options of Node, e.g. `--expose-gc` */
  static start(file: string, env: Record<string, string> = {}, execArgv: string[] = []): Program {
    const child = fork(join(folder, file), {
      env: { ...process.env, ...env },
      execArgv: [...(file.endsWith('.ts') ? ['-r', join(folder, 'register.cjs')] : []), ...execArgv],
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    });
    return new Program(file, child);
  }

  get pid(): number {
    return this.child.pid!;
  }

  call<T = void>(name: string, args: unknown = {}): Promise<T> {
    const id = ++this.calls;
    return new Promise<T>((resolve, reject) => {
      this.waiting.set(id, { resolve: resolve, reject });
      this.child.send({ id, name, args }, (error) => error && reject(error));
    });
  }

  async stop(): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const gone = new Promise((resolve) => this.child.once('exit', resolve));
    this.child.disconnect();
    const timer = setTimeout(() => this.child.kill('SIGKILL'), 5_000);
    await gone;
    clearTimeout(timer);
  }

  private onAnswer({ id, result, error }: Answer): void {
    const waiting = this.waiting.get(id);
    this.waiting.delete(id);
    if (error === undefined) waiting?.resolve(result);
    else waiting?.reject(new Error(`${this.file}: ${error}`));
  }

  private onExit(how: unknown): void {
    for (const call of this.waiting.values()) {
      call.reject(new Error(`${this.file} ended (${String(how)}):\n${this.output}`));
    }
    this.waiting.clear();
  }
}
