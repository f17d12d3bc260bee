import type { LoggerService } from '@nestjs/common';
import { Claim } from '../claiming/claim';
import { InFlightWindow } from '../claiming/in-flight-window';
import type { DeadLetterAlarm } from '../dead-letters/dead-letter-alarm';
import type { ResolvedOutboxOptions } from '../resolved-options';
import type { HeldLock } from '../locking/held-lock';
import type { Leader } from '../locking/leader';
import type { ClaimedMessage } from '../persistence/outbox-statements';
import type { RetryPolicy } from '../message/retry-policy';
import type { Transport } from '../transport/transport';
import { type DispatchCounts, noCounts, OutboxBatch } from './outbox-batch';
import type { OutboxStore } from './outbox-store';
import type { Postponements } from './postponements';
import type { WakeUp } from './wake-up';

/**
 * Batches under way at once: those that fill the window, and while one is settled another is claimed, so that the broker has
 * work all the time. Each may hold a connection for a moment, so there are never many.
 */
const AHEAD = 2;
const MOST_BATCHES = 4;
/** Full claims after which a batch more is tried again, when before there were too few free keys for it. */
const PATIENCE = 8;

export interface DispatchPassDependencies {
  readonly store: OutboxStore;
  readonly transport: Transport;
  /** `undefined` when all instances work. */
  readonly leader: Leader | undefined;
  readonly options: ResolvedOutboxOptions;
  readonly retry: RetryPolicy;
  readonly postponements: Postponements;
  readonly alarm: Pick<DeadLetterAlarm, 'raise'>;
  readonly wakeUp: WakeUp;
  readonly logger: LoggerService;
  /** Whether the dispatcher still wants to work. */
  readonly wanted: () => boolean;
}

export interface PassResult extends DispatchCounts {
  /**
   * `idle`: nothing is due any more. `follower`: another instance leads. `unavailable`: no broker. `trouble`: some
   * messages could not be brought to an end, so the next pass had better wait a little. `stopped`: told to end.
   */
  readonly end: 'idle' | 'follower' | 'unavailable' | 'trouble' | 'stopped';
}

/**
 * One pass of the dispatcher.
 *
 * 1. Without a usable broker: resign, so that an instance with one can lead, and end. No row is touched.
 * 2. Lead, or end: the lock `outbox-dispatcher`. (With `competing` there is no leader; the claims exclude each other.)
 * 3. Look whether anything is due: one EXISTS. After a claim that was full that is known already.
 * 4. Claim a batch, in a short transaction, with a token and a lease.
 * 5. Publish and settle it (see outbox-batch.ts), while going on with 3 for the next batch; so many are under way that the
 *    window stays full while one is claimed and one is settled. The order of a key is safe: a key with a claimed message is
 *    not claimed again before that is settled.
 * 6. Repeat until nothing is due and nothing is under way; meanwhile wake-ups lead back to 3.
 *
 * No message is begun after the end of its claim's lease or of the leadership, both by local deadline, nor once the
 * dispatcher stops; what was claimed is given back. The first batch that met trouble ends the pass.
 */
export class DispatchPass {
  private readonly window: InFlightWindow;
  private readonly pipeline: number;
  private readonly underWay = new Map<OutboxBatch, Promise<void>>();
  private readonly counts = noCounts();
  private leadership: HeldLock | undefined;
  private trouble = false;
  private stopping = false;

  constructor(private readonly use: DispatchPassDependencies) {
    const { maxInFlight, batchSize } = use.options;
    this.window = new InFlightWindow(maxInFlight);
    this.pipeline = Math.min(Math.ceil(maxInFlight / batchSize) + AHEAD, MOST_BATCHES);
  }

  /** @throws the error of the database, once nothing is under way any more */
  async run(): Promise<PassResult> {
    const { transport, leader } = this.use;
    if (!transport.availability().available) {
      await leader?.resign();
      return this.result('unavailable');
    }
    if (leader) {
      this.leadership = await leader.tryLead();
      if (!this.leadership) return this.result('follower');
    }
    try {
      await this.drain();
    } finally {
      await Promise.all(this.underWay.values());
    }
    if (!transport.availability().available) {
      await leader?.resign();
      return this.result('unavailable');
    }
    if (this.trouble && !this.stopping) return this.result('trouble');
    return this.result(this.mayGoOn() ? 'idle' : 'stopped');
  }

  /** No new claim, and no message that is not under way yet. */
  stop(): void {
    this.stopping = true;
    this.use.wakeUp.request();
  }

  /** Waits no longer for confirms: what is under way counts as unknown. */
  giveUp(): void {
    this.stop();
    for (const batch of this.underWay.keys()) batch.giveUp();
  }

  private async drain(): Promise<void> {
    const { store, wakeUp, options, logger } = this.use;
    let moreIsDue = false;
    // Batches at once. A claim that finds too few free keys has read the whole backlog for it, so as long as nothing new comes
    // the next has to wait for what is under way.
    let places = this.pipeline;
    while (this.mayGoOn()) {
      if (wakeUp.take()) places = this.pipeline;
      // What ends during the look may free keys that the look still found busy.
      const isLast = this.underWay.size === 0;
      if (this.underWay.size < Math.floor(places) && (moreIsDue || (await store.anythingDue()))) {
        const terms = { lease: options.lease, limit: options.batchSize };
        const claim = this.mayGoOn() ? await Claim.take(store, terms, logger) : undefined;
        moreIsDue = claim?.messages.length === options.batchSize;
        if (claim) this.begin(claim);
        // A full batch says that there is more; otherwise whatever was due, and not held by its key, is under way.
        if (moreIsDue) {
          places = Math.min(this.pipeline, places + 1 / PATIENCE);
          continue;
        }
        places = Math.max(1, this.underWay.size);
      }
      if (this.underWay.size > 0) await Promise.race([...this.underWay.values(), wakeUp.wait()]);
      else if (isLast) return;
    }
  }

  private begin(claim: Claim<ClaimedMessage>): void {
    const { store, transport, options, retry, postponements, alarm, logger } = this.use;
    const batch = new OutboxBatch(claim, {
      store,
      transport,
      window: this.window,
      retry,
      postponements,
      alarm,
      publishTimeout: options.publishTimeout,
      keepSent: options.retention !== false,
      haltOnDead: options.onDeadLetter === 'halt',
      logger,
      mayStart: () => this.mayGoOn(),
    });
    const done = batch.run().then(({ counts, trouble }) => {
      this.underWay.delete(batch);
      for (const kind of Object.keys(counts) as (keyof DispatchCounts)[]) this.counts[kind] += counts[kind];
      if (trouble) this.trouble = true;
    });
    this.underWay.set(batch, done);
  }

  private mayGoOn(): boolean {
    return (
      !this.stopping &&
      !this.trouble &&
      this.use.wanted() &&
      (!this.leadership || this.leadership.held) &&
      this.use.transport.availability().available
    );
  }

  private result(end: PassResult['end']): PassResult {
    return { ...this.counts, end };
  }
}
