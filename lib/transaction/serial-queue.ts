/** Runs one piece of work after the other, in the order in which they came. One that fails does not stop the next. */
export class SerialQueue {
  private busy = false;
  private readonly waiting: (() => void)[] = [];

  /** Begins at once where nothing runs. */
  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.busy) await new Promise<void>((resolve) => this.waiting.push(resolve));
    this.busy = true;
    try {
      return await work();
    } finally {
      // Handed on without a moment in which somebody else could come first.
      const next = this.waiting.shift();
      if (next) next();
      else this.busy = false;
    }
  }
}
