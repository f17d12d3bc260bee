/** Runs one piece of work after the other, in the order in which they came. One that fails does not stop the next. */
export class SerialQueue {
  /** Settles when the last one is done; nothing while there is none. */
  private last: Promise<void> | undefined;

  run<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.last ? this.last.then(work) : work();
    const settled = turn.then(noop, noop).then(() => {
      if (this.last === settled) this.last = undefined;
    });
    this.last = settled;
    return turn;
  }
}

const noop = () => undefined;
