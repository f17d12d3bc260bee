import { Logger } from '@nestjs/common';
import { pauseAfter, type Pauses } from './pauses';
import { ShuttingDownError } from '../transaction/shutting-down.error';
import { thrownMessage } from '../message/thrown-text';

/** Milliseconds: how long to wait before the second try, and at most. */
const FIRST_PAUSE = 100;
const LONGEST_PAUSE = 5_000;

/**
 * Holds a delivery while the database cannot do its part: unacked, and tried again in place. Giving it back to the broker
 * would spin at full speed, and burn the delivery limit of a quorum queue; back-pressure is the prefetch.
 */
export class Hold {
  private tries = 0;

  constructor(
    private readonly pauses: Pauses,
    private readonly logger: Logger,
    private readonly what: () => string,
  ) {}

  /**
   * @param error why it has to wait
   * @throws {ShuttingDownError} as soon as the application stops
   */
  async wait(error: unknown): Promise<void> {
    this.tries += 1;
    const pause = Math.round(pauseAfter(this.tries, FIRST_PAUSE, LONGEST_PAUSE));
    const reason = thrownMessage(error);
    this.logger.warn(
      `Holding ${this.what()}, next try in ${pause} ms; the database could not do its part: ${reason}`,
    );
    await this.pauses.wait(pause);
  }

  /** Runs work of the module's own until it succeeds. */
  async insist<T>(work: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await work();
      } catch (error) {
        if (error instanceof ShuttingDownError) throw error;
        await this.wait(error);
      }
    }
  }
}
