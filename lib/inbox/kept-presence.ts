/** Milliseconds that an answer of the table is believed at most. */
const LONGEST = 5_000;

/**
 * Whether the table may own messages, in which case a delivery can meet a copy of itself that is being handled from there.
 *
 * Only a hint. It saves each delivery a look, whose planning costs the server as much as the rest of the take; where it is wrong,
 * because another process has kept a message a moment ago, the delivery waits for that run as it would for a concurrent one.
 */
export class KeptPresence {
  private noneUntil = -Infinity;
  private changes = 0;
  private readonly validity: number;

  /** @param pollInterval milliseconds between two questions of the processor to the table */
  constructor(pollInterval: number) {
    this.validity = Math.min(2 * pollInterval, LONGEST);
  }

  get mayBe(): boolean {
    return performance.now() >= this.noneUntil;
  }

  /** This process is about to keep something, or has just done so. */
  note(): void {
    this.changes += 1;
    this.noneUntil = -Infinity;
  }

  /** To be called before the table is asked. @returns takes the answer */
  ask(): (isAnythingKept: boolean) => void {
    const { changes } = this;
    const asked = performance.now();
    return (isAnythingKept) => {
      const isNews = changes === this.changes;
      this.noneUntil = isAnythingKept || !isNews ? -Infinity : asked + this.validity;
    };
  }
}
