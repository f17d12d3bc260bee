import { ChildProcess, fork } from 'node:child_process';
import { isAbsolute, join, relative, resolve } from 'node:path';
import { ChildMessages } from './child-messages';
import { ChildMessage, RequestMessage } from './child-protocol';
import { endWithThisProcess } from './process-registry';
import { WaitOptions } from './wait-for';

export interface AppProcessOptions {
  /** Added to the environment of the test process. */
  env?: Record<string, string | undefined>;
  args?: string[];
  /** Options for Node itself, for example `--unhandled-rejections=strict`. */
  execArgv?: string[];
  /** Points of `killAt()` that kill the process from the start; later ones with `request('arm', { point })`. */
  armed?: string[];
}

export interface Exit {
  code: number | null;
  signal: NodeJS.Signals | null;
}

export interface AppProcess {
  readonly pid: number;
  /** Resolves with the payload of the first `emit(type, payload)`, past or future, that no earlier call has taken. */
  waitFor<P = unknown>(type: string, predicate?: (payload: P) => boolean, options?: WaitOptions): Promise<P>;
  /** All payloads of this type so far, taken or not. */
  events<P = unknown>(type: string): P[];
  /** Any message as it is, for fixtures that listen to `process.on('message')` themselves. */
  send(message: unknown): void;
  /** Calls the fixture's `onRequest(type, …)`; rejects with its error, or when the process ends before it answers. */
  request<R = unknown>(type: string, payload?: unknown, options?: WaitOptions): Promise<R>;
  /** stdout and stderr so far. */
  output(): string;
  /** Default SIGKILL: gone at once, nothing can be cleaned up. Resolves when it has ended. */
  kill(signal?: NodeJS.Signals): Promise<Exit>;
  /** SIGSTOP: a process that is paused (GC, VM migration) beyond its leases. Its sockets stay open. */
  stop(): void;
  /** SIGCONT: it wakes up. */
  cont(): void;
  readonly exited: Promise<Exit>;
  /** Ends it if it still runs. */
  close(): Promise<void>;
}

const root = resolve(__dirname, '../..');
const preloads = ['register-typescript.cjs', 'end-with-parent.cjs'].flatMap((file) => [
  '-r',
  join(__dirname, file),
]);

/**
 * Starts a TypeScript fixture as a process of its own, so that a test can kill, stop and restart a whole application.
 * Relative paths start at the repository's root. Does not wait until it is up: `await app.waitFor('ready')`.
 */
export function startAppProcess(fixtureFile: string, options: AppProcessOptions = {}): AppProcess {
  const { env = {}, args = [], execArgv = [], armed = [] } = options;
  const file = isAbsolute(fixtureFile) ? fixtureFile : join(root, fixtureFile);
  const child = fork(file, args, {
    // Jest's own environment stays out: a child that believes it is a Jest worker behaves differently.
    env: { ...process.env, NODE_OPTIONS: '', JEST_WORKER_ID: undefined, KILL_AT: armed.join(','), ...env },
    execArgv: [...preloads, ...execArgv],
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    serialization: 'advanced',
  });
  return new ForkedApp(child, file);
}

class ForkedApp implements AppProcess {
  readonly pid: number;
  readonly exited: Promise<Exit>;
  private readonly inbox = new ChildMessages((what, reason) => this.explain(what, reason));
  private printed = '';
  private ended: Exit | undefined;

  constructor(
    private readonly child: ChildProcess,
    private readonly file: string,
  ) {
    this.pid = child.pid ?? -1;
    const release = endWithThisProcess(child);
    child.stdout?.on('data', (chunk: Buffer) => (this.printed += chunk.toString()));
    child.stderr?.on('data', (chunk: Buffer) => (this.printed += chunk.toString()));
    child.on('message', (message) => this.inbox.receive(message as ChildMessage));
    child.on('error', (error) => (this.printed += `\n${error.message}`));
    this.exited = new Promise((resolved) => {
      // 'close', not 'exit': by then all output has been read and all messages have arrived.
      child.once('close', (code, signal) => {
        release();
        this.ended = { code, signal };
        this.inbox.end();
        resolved(this.ended);
      });
    });
  }

  waitFor<P>(type: string, predicate?: (payload: P) => boolean, options?: WaitOptions): Promise<P> {
    return this.inbox.event(type, predicate, options);
  }

  events<P>(type: string): P[] {
    return this.inbox.events(type);
  }

  send(message: unknown): void {
    // The child may end at any moment, which is what the tests are about: a failed send is no error here.
    if (this.child.connected) this.child.send(message as object, () => undefined);
  }

  async request<R>(type: string, payload?: unknown, options?: WaitOptions): Promise<R> {
    const { id, response } = this.inbox.response(type, options);
    this.send({ kind: 'request', id, type, payload } satisfies RequestMessage);
    const { result, error } = await response;
    if (error) throw Object.assign(new Error(error.message), { name: error.name, remoteStack: error.stack });
    return result as R;
  }

  output(): string {
    return this.printed;
  }

  kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<Exit> {
    if (!this.ended) this.child.kill(signal);
    return this.exited;
  }

  stop(): void {
    this.child.kill('SIGSTOP');
  }

  cont(): void {
    this.child.kill('SIGCONT');
  }

  async close(): Promise<void> {
    await this.kill('SIGKILL');
  }

  private explain(what: string, reason: string): Error {
    const state = this.ended ? `ended with ${this.ended.signal ?? this.ended.code}` : 'running';
    const app = `${relative(root, this.file)} (pid ${this.pid}, ${state})`;
    const events = this.inbox.untakenTypes().join(', ') || 'none';
    return new Error(
      `Waited in vain for ${what} of ${app}: ${reason}\n` +
        `Events nobody waited for: ${events}\nOutput:\n${this.printed || '(none)'}`,
    );
  }
}
