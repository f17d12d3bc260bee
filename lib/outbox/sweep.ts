const START = '0';
/** A look from the start may take this share of the time: the sweep behind it lasts nine times as long. */
const SHARE = 0.1;

/**
 * Where the next claim goes on among the messages without a key.
 *
 * While somebody keeps a transaction open, PostgreSQL cannot clean up behind a queue: each claim from the start walks over
 * all that was sent since. So a claim goes on behind the last one, in sweeps through the table.
 *
 * 1. A sweep begins at the start of the table. How long that first claim took is remembered.
 * 2. It goes on behind what was claimed, and ends after nine times that long: a message behind the sweep (given back,
 *    due for its retry, committed late) waits for that long at most, which is milliseconds on a healthy database.
 * 3. It also ends when nothing is found: then the start is looked at before anybody says that nothing is due.
 *
 * Messages with a key are never looked for in sweeps: it would break their order.
 */
export class Sweep {
  private position = START;
  private ends = 0;

  /** The sequence to go on behind. */
  get after(): string {
    if (this.position !== START && performance.now() >= this.ends) this.position = START;
    return this.position;
  }

  /** @returns whether there is anything to look at again, since the sweep was not at its start */
  startOver(): boolean {
    const moved = this.position !== START;
    this.position = START;
    return moved;
  }

  /**
   * @param after where the claim began
   * @param last the highest sequence of a message without a key that it found, if any
   * @param duration of the claim, in milliseconds
   */
  claimed(after: string, last: string | undefined, duration: number): void {
    if (after === START) this.ends = performance.now() + duration * (1 / SHARE - 1);
    if (last !== undefined) this.position = last;
  }
}
