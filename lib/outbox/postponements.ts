import { backoffDelay } from '../message/backoff';

/** Doubled each time. No share of it is random: nothing waits for these to come back but the broker's queue itself. */
const DELAY = { initialDelay: 1_000, factor: 2, maxDelay: 60_000, jitter: 0 };
/** Messages remembered; the oldest are forgotten first, which costs no more than one early try each. */
const REMEMBERED = 10_000;

/**
 * How long to leave messages alone that the broker gave no answer for, on a connection that lives: a quorum queue without
 * its majority confirms nothing, and the messages for it would fill every batch while others could be sent. Known in this
 * process only; another leader begins with the first delay again.
 */
export class Postponements {
  private readonly counts = new Map<string, number>();

  /** @returns milliseconds, growing with each call for the same message */
  next(messageId: string): number {
    const count = (this.counts.get(messageId) ?? 0) + 1;
    this.forget(messageId);
    this.counts.set(messageId, count);
    const oldest = this.counts.size > REMEMBERED ? this.counts.keys().next() : undefined;
    if (oldest && !oldest.done) this.counts.delete(oldest.value);
    return backoffDelay(count, DELAY);
  }

  /** It has come to an end, or will begin anew. */
  forget(messageId: string): void {
    this.counts.delete(messageId);
  }
}
