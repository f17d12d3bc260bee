import { randomUUID } from 'node:crypto';
import type { LoggerService } from '@nestjs/common';
import { Deadline } from '../locking/deadline';

/** The claim statements of one table, each in a transaction of its own. */
export interface ClaimStore<T> {
  claim(request: { token: string; lease: number; limit: number }): Promise<T[]>;
  /** @returns how many of the messages, which are all that are left of the claim, still belong to the token */
  renew(token: string, lease: number, messages: readonly T[]): Promise<number>;
}

export interface ClaimTerms {
  /** Milliseconds. */
  readonly lease: number;
  /** Messages at most. */
  readonly limit: number;
}

/**
 * Messages that belong to this process for the time of a lease.
 *
 * 1. Each claim has a token of its own. Whoever writes about a message names the token, so that nothing is written about
 *    what somebody else has claimed since.
 * 2. The lease ends here before it ends in the database (see deadline.ts). After that nothing may be begun.
 * 3. It is renewed at a third of the lease. Only a renewal that found *all* messages moves the end: one that is missing
 *    belongs to somebody else by now, and nobody knows which.
 * 4. A message whose row a transaction is about to lock leaves the claim first: the row lock is its lease from there on, and a
 *    renewal would wait for it, or make the transaction fail under the stricter isolation levels.
 */
export class Claim<T> {
  private timer: NodeJS.Timeout | undefined;
  private renewing: Promise<void> | undefined;
  private ended = false;
  private readonly left: Set<T>;

  private constructor(
    private readonly store: ClaimStore<T>,
    private readonly terms: ClaimTerms,
    private readonly logger: LoggerService,
    readonly token: string,
    readonly messages: readonly T[],
    private deadline: Deadline,
  ) {
    this.left = new Set(messages);
    this.schedule(terms.lease / 3);
  }

  /** @returns `undefined` when there is nothing to claim */
  static async take<T>(
    store: ClaimStore<T>,
    terms: ClaimTerms,
    logger: LoggerService,
  ): Promise<Claim<T> | undefined> {
    const token = randomUUID();
    const deadline = Deadline.clock();
    const messages = await store.claim({ token, ...terms });
    if (messages.length === 0) return undefined;
    return new Claim(store, terms, logger, token, messages, deadline(terms.lease));
  }

  /** Whether the messages are certainly still ours. */
  get valid(): boolean {
    return !this.deadline.passed;
  }

  /** The message is not renewed from here on; a renewal that is under way has ended when this resolves. */
  async leave(message: T): Promise<void> {
    this.left.delete(message);
    if (this.left.size === 0) await this.endRenewal();
    else await this.renewing;
  }

  /** No renewal from here on. To be awaited before settling: both write the same rows and could deadlock. */
  async endRenewal(): Promise<void> {
    this.ended = true;
    clearTimeout(this.timer);
    await this.renewing;
  }

  private schedule(delay: number): void {
    if (this.ended) return;
    this.timer = setTimeout(() => void (this.renewing = this.renew()), delay).unref();
  }

  private async renew(): Promise<void> {
    const { lease } = this.terms;
    const deadline = Deadline.clock();
    const messages = [...this.left];
    try {
      const found = await this.store.renew(this.token, lease, messages);
      if (found < messages.length) {
        this.logger.warn(
          `${messages.length - found} of ${messages.length} claimed messages have a new owner or are gone; ` +
            'what was not sent yet is given back',
        );
        return;
      }
      this.deadline = deadline(lease);
      this.schedule(lease / 3);
    } catch (error) {
      this.logger.warn(`A claim could not be renewed: ${String(error)}`);
      this.schedule(lease / 10);
    }
  }
}
