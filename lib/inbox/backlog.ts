import { Logger } from '@nestjs/common';
import type { KeptStore } from './kept-store';
import type { Pauses } from './pauses';

/** Milliseconds between two looks at the table. */
const INTERVAL = 1_000;

/**
 * Back-pressure: whoever wants to add to the open messages of the table waits while there are too many. What waits is a
 * delivery that is not acked, so the broker keeps the rest. The figure is as old as the last look and what was added since.
 */
export class Backlog {
  private readonly logger = new Logger('Inbox');
  private open = 0;
  private lookedAt = -Infinity;
  private looking: Promise<void> | undefined;
  private reported = false;

  /** @param limit open messages; `Infinity` for none */
  constructor(
    private readonly store: Pick<KeptStore, 'backlog'>,
    private readonly limit: number,
    private readonly pauses: Pauses,
  ) {}

  /**
   * Resolves when there is room for one more.
   *
   * @throws {ShuttingDownError} when the application stops while there is none
   */
  async room(): Promise<void> {
    if (this.limit === Infinity) return;
    for (;;) {
      if (performance.now() - this.lookedAt >= INTERVAL) await (this.looking ??= this.look());
      if (this.open < this.limit) {
        this.open++;
        return;
      }
      if (!this.reported) {
        this.logger.warn(
          `The inbox table has ${this.limit} open messages (inbox.maxBacklog): deliveries wait in the broker until there are fewer.`,
        );
      }
      this.reported = true;
      await this.pauses.wait(INTERVAL / 2);
    }
  }

  private async look(): Promise<void> {
    try {
      this.open = await this.store.backlog(this.limit);
      if (this.reported && this.open < this.limit) {
        this.logger.log('The inbox table has room again: deliveries go on.');
        this.reported = false;
      }
    } catch {
      // Whoever stores now finds out about the database itself, and waits for it.
    } finally {
      this.lookedAt = performance.now();
      this.looking = undefined;
    }
  }
}
