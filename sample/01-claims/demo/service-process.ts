import { join } from 'node:path';
import { Program } from '../../shared/program';

/** One of the two services, run as its own `main.ts` says; it can be killed at an exact moment, and started again. */
export class ServiceProcess {
  private program: Program | undefined;

  constructor(
    private readonly name: 'intake' | 'settlement',
    private readonly env: Record<string, string>,
  ) {}

  async start(): Promise<void> {
    this.program = await Program.start(join(__dirname, '..', this.name, 'main.ts'), {
      env: this.env,
      preload: [join(__dirname, 'preload.ts')],
    });
  }

  /** Arms a SIGKILL at that moment. Resolves when it is armed. */
  async dieInsteadOf(strike: 'ack' | 'confirm'): Promise<{ happened: Promise<void> }> {
    const { program } = this;
    if (!program) throw new Error(`${this.name} is not running`);
    const happened = program.ended().then((signal) => {
      if (signal !== 'SIGKILL') throw new Error(`${this.name} ended by itself instead of being killed`);
    });
    await program.ask({ dieInsteadOf: strike });
    return { happened };
  }

  async stop(): Promise<void> {
    await this.program?.stop();
  }

  log(): string {
    return `--- ${this.name}\n${this.program?.log ?? ''}`;
  }
}
