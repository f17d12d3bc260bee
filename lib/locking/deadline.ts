/**
 * The end of a lease as seen from this process, without asking the database.
 *
 * The start is taken *before* the statement is sent, so that this deadline is never later than the database's; a margin
 * makes it earlier. Time is monotonic. The wall clock counts too where it has advanced more: a virtual machine that was
 * frozen stops its monotonic clock, and a wall clock that jumps forward only ends a lease early.
 */
export class Deadline {
  private constructor(
    private readonly monotonicStart: number,
    private readonly wallStart: number,
    private readonly length: number,
  ) {}

  /** A stopwatch for the statement that is about to be sent. */
  static clock(): (lease: number) => Deadline {
    const monotonic = performance.now();
    const wall = Date.now();
    return (lease) => new Deadline(monotonic, wall, lease - margin(lease));
  }

  /** Milliseconds; 0 when it has passed. */
  get remaining(): number {
    const elapsed = Math.max(performance.now() - this.monotonicStart, Date.now() - this.wallStart);
    return Math.max(0, this.length - elapsed);
  }

  get passed(): boolean {
    return this.remaining === 0;
  }
}

/** A tenth of the lease, at most a second: for the way of a message that was begun just in time. */
function margin(lease: number): number {
  return Math.min(1_000, lease / 10);
}
