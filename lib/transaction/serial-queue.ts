import { asPromise } from '../timing/as-promise';

/** Runs one piece of work after the other, in the order in which they came. One that fails does not stop the next. */
export class SerialQueue {
  private busy = false;
  private readonly waiting: (() => void)[] = [];

  /**
   * Begins at once where nothing runs.
   *
   * @param onEnd called when the work has ended, before the next begins
   */
  run<T>(work: () => Promise<T>, onEnd?: () => void): Promise<T> {
    if (!this.busy) return this.start(work, onEnd);
    return new Promise<void>((resolve) => this.waiting.push(resolve)).then(() => this.start(work, onEnd));
  }

  private start<T>(work: () => Promise<T>, onEnd: (() => void) | undefined): Promise<T> {
    this.busy = true;
    const end = () => {
      onEnd?.();
      this.handOn();
    };
    return asPromise(work).then(
      (result) => {
        end();
        return result;
      },
      (error: unknown) => {
        end();
        throw error;
      },
    );
  }

  /** Without a moment in which somebody else could come first. */
  private handOn(): void {
    const next = this.waiting.shift();
    if (next) next();
    else this.busy = false;
  }
}
