import { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { endServerWithThisProcess } from './process-registry';
import { waitFor } from './wait-for';

export interface ServerProcessOptions {
  /** For messages, for example `PostgreSQL on port 5433`. */
  name: string;
  /** Where the server's own words go; shown when it ends while starting. */
  logFile: string;
  spawn: () => ChildProcess;
  /** True (or a rejection for "not yet") once clients can log in. */
  answers: () => Promise<boolean>;
}

/** A server of the test's own: started until it answers, ended by its pid, and never longer alive than the test. */
export class ServerProcess {
  private child: ChildProcess | undefined;

  constructor(private readonly options: ServerProcessOptions) {}

  /** Does nothing but wait while it runs. */
  async start(): Promise<void> {
    const child = this.child ?? this.spawn();
    const ended = new AbortController();
    const onExit = () => ended.abort(this.failure());
    child.once('exit', onExit);
    try {
      await this.comesUp(ended.signal);
    } finally {
      child.off('exit', onExit);
    }
  }

  async comesUp(signal?: AbortSignal): Promise<void> {
    await waitFor(this.options.name, this.options.answers, { timeout: 60_000, interval: 50, signal });
  }

  /** Resolves when the process has ended; at once when none runs. */
  async end(signal: NodeJS.Signals): Promise<void> {
    const { child } = this;
    if (!child) return;
    const exited = once(child, 'exit');
    child.kill(signal);
    await exited;
  }

  private spawn(): ChildProcess {
    const child = this.options.spawn();
    this.child = child;
    const release = endServerWithThisProcess(child);
    child.once('exit', () => {
      release();
      this.child = undefined;
    });
    return child;
  }

  private failure(): Error {
    return new Error(
      `${this.options.name} ended while starting:\n${readFileSync(this.options.logFile, 'utf8')}`,
    );
  }
}
