import type { LoggerService } from '@nestjs/common';
import type { Claim } from '../claiming/claim';
import type { InFlightWindow } from '../claiming/in-flight-window';
import { OrderedRun } from '../claiming/ordered-run';
import { persistUntil } from '../claiming/persist-until';
import type { DeadLetterAlarm } from '../dead-letters/dead-letter-alarm';
import type { RetryPolicy } from '../message/retry-policy';
import type {
  ClaimedMessage,
  FailedMessage,
  PostponedMessage,
  Settlement,
} from '../persistence/outbox-statements';
import type { SendOutcome, Transport } from '../transport/transport';
import type { OutboxStore } from './outbox-store';
import type { Postponements } from './postponements';

/** How many messages ended in which way. */
export interface DispatchCounts {
  /** Confirmed by the broker. */
  sent: number;
  /** The message's own fault; it is tried again at its next date. */
  failed: number;
  /** The message's own fault for the last time, or expired. */
  dead: number;
  /** Written, and nobody knows whether they arrived; they are sent again with the same id. */
  unknown: number;
  /** Given back without having been tried. */
  released: number;
}

export interface BatchResult {
  readonly counts: DispatchCounts;
  /** Whether the broker or the database got in the way, so that going on at once would meet the same. */
  readonly trouble: boolean;
}

export const noCounts = (): DispatchCounts => ({ sent: 0, failed: 0, dead: 0, unknown: 0, released: 0 });

export interface OutboxBatchDependencies {
  readonly store: Pick<OutboxStore, 'settle'>;
  readonly transport: Pick<Transport, 'send' | 'availability'>;
  /** Shared by all batches under way. */
  readonly window: InFlightWindow;
  readonly retry: RetryPolicy;
  /** Shared by all batches of the dispatcher. */
  readonly postponements: Postponements;
  readonly alarm: Pick<DeadLetterAlarm, 'raise'>;
  /** Milliseconds. */
  readonly publishTimeout: number;
  readonly keepSent: boolean;
  /** Whether a dead message stops its ordering key. */
  readonly haltOnDead: boolean;
  readonly logger: LoggerService;
  /** Whether a message may still be begun, apart from the claim's own lease. */
  readonly mayStart: () => boolean;
}

type FailedOutcome = Extract<SendOutcome, { kind: 'failed' }>;
type Outcome = SendOutcome | { readonly kind: 'expired' };

/**
 * One claimed batch.
 *
 * 1. Send: all keys at once, one message of a key at a time, outside any transaction. The next of a key follows when the
 *    one before is confirmed (or has expired, unless dead ones stop their key).
 * 2. End the renewal of the claim.
 * 3. Settle in one transaction: failed ones with their next date or dead, then sent ones, then all others released. What a
 *    broker that is there did not answer is released later than that: it holds up neither others nor the dispatcher.
 *    A database that is away is asked again until the lease ends; after that the messages are sent again, with the same
 *    ids, by whoever claims them next.
 */
export class OutboxBatch {
  private readonly order: OrderedRun<ClaimedMessage, Outcome>;
  private givenUp = false;
  private settleFailure: unknown;

  constructor(
    private readonly claim: Claim<ClaimedMessage>,
    private readonly use: OutboxBatchDependencies,
  ) {
    this.order = new OrderedRun({
      items: claim.messages,
      keyOf: (message) => message.orderingKey,
      work: (message) => this.send(message),
      goesOn: ({ kind }) => kind === 'sent' || (kind === 'expired' && !use.haltOnDead),
      window: use.window,
    });
  }

  /** Never rejects. */
  async run(): Promise<BatchResult> {
    await this.order.run();
    await this.claim.endRenewal();
    const counts = noCounts();
    const settlement = this.settlement(counts);
    const settled = await persistUntil(() => this.settle(settlement), {
      goOn: () => this.claim.valid && !this.givenUp,
      onFailure: (error) => this.noteFailure(error),
    });
    if (!settled) {
      this.use.logger.error(
        `The outcome of ${this.claim.messages.length} messages could not be written; those that were sent will be sent ` +
          `again with the same ids: ${String(this.settleFailure)}`,
      );
    }
    return { counts, trouble: !settled || this.metTrouble(settlement) };
  }

  /** Messages that were postponed are trouble only where the broker has answered nothing at all. */
  private metTrouble({ sent, failed, postponed = [] }: Settlement): boolean {
    const outcomes = [...this.order.results.values()];
    const lost = outcomes.filter(({ kind }) => kind === 'unknown' || kind === 'unsent').length;
    return lost > postponed.length || (lost > 0 && sent.length + failed.length === 0);
  }

  /** Settles now; what is under way counts as unknown. */
  giveUp(): void {
    this.givenUp = true;
    this.order.giveUp();
  }

  private async send(message: ClaimedMessage): Promise<Outcome> {
    if (message.expired) return { kind: 'expired' };
    try {
      return await this.use.transport.send(message, {
        timeout: this.use.publishTimeout,
        mayStart: () => this.claim.valid && !this.givenUp && this.use.mayStart(),
      });
    } catch (error) {
      // A transport does not reject. If one does, it is not the message's fault.
      return { kind: 'unknown', error: String(error) };
    }
  }

  private settlement(counts: DispatchCounts): Settlement {
    const sent: string[] = [];
    const failed: FailedMessage[] = [];
    const released: string[] = [];
    const postponed: PostponedMessage[] = [];
    const { transport, postponements } = this.use;
    const isAvailable = transport.availability().available;
    for (const message of this.claim.messages) {
      const { seq, messageId } = message;
      const outcome = this.order.results.get(message);
      const isUnanswered = outcome?.kind === 'unknown' && outcome.unanswered === true;
      if (!isUnanswered) postponements.forget(messageId);
      if (outcome?.kind === 'sent') {
        sent.push(seq);
      } else if (outcome?.kind === 'expired') {
        failed.push({ seq, error: 'Expired before it could be sent', next: 'dead' });
        counts.dead++;
      } else if (outcome?.kind === 'failed') {
        const next = this.next(message, outcome);
        failed.push({ seq, error: outcome.error, next });
        counts[next === 'dead' ? 'dead' : 'failed']++;
      } else {
        // Not when the broker has gone or is blocked meanwhile: that is why there was no answer.
        if (isUnanswered && isAvailable) postponed.push({ seq, delay: postponements.next(messageId) });
        else released.push(seq);
        const unknown = outcome ? outcome.kind === 'unknown' : this.order.wasStarted(message);
        counts[unknown ? 'unknown' : 'released']++;
      }
    }
    counts.sent = sent.length;
    const { token } = this.claim;
    return { token, sent, failed, released, postponed, keepSent: this.use.keepSent };
  }

  private next({ attempts, retry }: ClaimedMessage, outcome: FailedOutcome): number | 'dead' {
    if (outcome.permanent) return 'dead';
    return this.use.retry.next(attempts + 1, outcome.cause ?? new Error(outcome.error), retry);
  }

  private async settle(settlement: Settlement): Promise<void> {
    const { store, logger } = this.use;
    const { settled, dead } = await store.settle(settlement);
    const others = this.claim.messages.length - settled;
    if (others > 0)
      logger.warn(`${others} messages of a batch were left alone: they have a new owner or are gone`);
    this.report(settlement.failed);
    this.raise(settlement.failed, new Set(dead));
  }

  private raise(failed: readonly FailedMessage[], dead: ReadonlySet<string>): void {
    for (const { seq, error } of failed) {
      const message = dead.has(seq) ? this.claim.messages.find((each) => each.seq === seq) : undefined;
      if (!message) continue;
      const { messageId, exchange, routingKey, attempts } = message;
      const outcome = this.order.results.get(message);
      const cause = outcome?.kind === 'failed' ? outcome.cause : undefined;
      this.use.alarm.raise({
        ...{ box: 'outbox', messageId, exchange, routingKey, attempts: attempts + 1, error },
        ...(cause !== undefined && { cause }),
      });
    }
  }

  /** One line each per batch: a thousand messages may fail for one reason. */
  private report(failed: readonly FailedMessage[]): void {
    const { logger } = this.use;
    const dead = failed.filter(({ next }) => next === 'dead');
    const retried = failed.filter(({ next }) => next !== 'dead');
    if (dead.length > 0) logger.error(`Messages are dead: ${this.describe(dead)}`);
    if (retried.length > 0)
      logger.warn(`Messages failed and are tried again later: ${this.describe(retried)}`);
  }

  private describe(failed: readonly FailedMessage[]): string {
    const [first] = failed;
    const message = this.claim.messages.find(({ seq }) => seq === first?.seq);
    const others = failed.length > 1 ? ` (and ${failed.length - 1} more)` : '';
    return `${message?.messageId} to "${message?.exchange}" with "${message?.routingKey}"${others}: ${first?.error}`;
  }

  /** One line per batch: during an outage each attempt fails in the same way. */
  private noteFailure(error: unknown): void {
    if (this.settleFailure === undefined) {
      this.use.logger.warn(`The outcome of a batch could not be written yet: ${String(error)}`);
    }
    this.settleFailure = error;
  }
}
