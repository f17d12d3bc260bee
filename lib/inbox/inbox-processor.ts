import { Logger } from '@nestjs/common';
import { Claim, type ClaimStore } from '../claiming/claim';
import { WakeUp } from '../outbox/wake-up';
import type { ClaimedInboxMessage, InboxKey, KeptMessage } from '../persistence/inbox-message';
import type { StoredMessage, StoringClaim } from '../persistence/kept-inbox-statements';
import { NamedInterval, type IntervalRegistry } from '../scheduling/named-interval';
import { within } from '../timing/within';
import type { ConcurrencyGate } from '../transaction/concurrency-gate';
import type { KeptHandler } from './kept-handler';
import { KeptRun, type KeptRunParts, type RunEnd } from './kept-run';
import type { KeptStore } from './kept-store';
import type { RunningDeliveries } from './running-deliveries';
import { claimedOf, UnansweredStores } from './stored-as-claimed';

/** Milliseconds before a claim is tried again that the database has refused. */
const DATABASE_PAUSE = 500;

/** Milliseconds that messages of somebody else's consumers may be due before that is worth a warning, and how often to look. */
const OVERDUE = 60_000;

/**
 * Milliseconds: claimed ahead is what is worked off in this time, but at least once and at most nine times what may run at
 * once. A claim costs as much as a run or two, and what waits here with slow handlers could run in another process.
 */
const AHEAD = 100;
const MOST_AHEAD = 9;

export interface InboxProcessorParts {
  /** Of the data source, where it has one. */
  readonly name: string | undefined;
  readonly scheduler: IntervalRegistry;
  readonly store: KeptStore;
  readonly running: RunningDeliveries;
  readonly gate: Pick<ConcurrencyGate, 'size'>;
  readonly run: KeptRunParts;
  /** Milliseconds. */
  readonly pollInterval: number;
  /** Milliseconds. */
  readonly lease: number;
}

/** How many runs ended in which way. */
export type ProcessCounts = Record<RunEnd, number>;

/**
 * Handles the messages that the inbox table owns: those that are deferred, and those that have failed. It is a named interval
 * in the `SchedulerRegistry` (`inbox-processor`), and works in every instance that has handlers: claims exclude each
 * other. It is woken as soon as something was stored by this process.
 *
 * 0. What this process stores, and has room for, is stored as claimed and begun at once, unless others wait for that room.
 * 1. Look whether anything is due: one EXISTS. After a claim that was full, or what this process has stored, that is known.
 * 2. Claim as many as there is room for, of this instance's consumers only: while a new version is rolled out the old one
 *    leaves alone what it does not know. More than may run at once, so that the next is there when one has ended; those that
 *    wait are renewed.
 * 3. Run each (see kept-run.ts). Go on with 1. when half of the room is free and something may be due: the claim was full, somebody
 *    has woken it, or an ordering key has become free.
 * 4. Nothing is due and nothing runs: wait for the next poll or wake-up.
 *
 * Everything runs in the async context of the constructor, whoever wakes it from within whatever transaction.
 */
export class InboxProcessor {
  private readonly logger = new Logger('InboxProcessor');
  private readonly interval: NamedInterval;
  private readonly wakeUp = new WakeUp();
  /** Known from who stored it, so that nobody has to look. */
  private somethingIsDue = false;
  /** The last claim was full. */
  private moreIsDue = false;
  /** There may be something to claim as soon as there is room. */
  private isAsked = false;
  private readonly handlers = new Map<string, KeptHandler>();
  private readonly warned = new Set<string>();
  /** Begun and not ended. */
  private running = 0;
  /** Those of them that are suspects: they go through a lane, one at a time, and need no more than one place. */
  private suspects = 0;
  /** Places of messages that are being stored as claimed, and of those that are being claimed. */
  private readonly reserved = { storing: 0, claiming: 0 };
  private readonly unanswered: UnansweredStores;
  /** Milliseconds from the end of one run to the end of the next, lately. */
  private pace = AHEAD;
  private lastEnd = performance.now();
  private loop: Promise<void> | undefined;
  private stopping = false;
  private outage = false;
  private lookedForOthers = performance.now();

  constructor(private readonly parts: InboxProcessorParts) {
    const { name, scheduler, pollInterval, store } = parts;
    const jobName = name ? `inbox-processor:${name}` : 'inbox-processor';
    this.unanswered = new UnansweredStores(store);
    this.interval = new NamedInterval(scheduler, jobName, pollInterval, () => this.wake());
  }

  /** Has to be done before the start. */
  add(handler: KeptHandler): void {
    this.handlers.set(handler.policy.consumer, handler);
  }

  /** How many may be claimed and not ended. */
  private get capacity(): number {
    const { size } = this.parts.gate;
    return size + Math.min(Math.max(Math.round(AHEAD / this.pace), size), MOST_AHEAD * size);
  }

  private get inFlight(): number {
    return this.running + this.reserved.storing + this.reserved.claiming;
  }

  /** A claim costs as much as a run or two: it is made for half of the capacity, or where a place would be idle without it. */
  private get isWorthAClaim(): boolean {
    const { inFlight, capacity, suspects } = this;
    return inFlight <= capacity / 2 || (inFlight < capacity && inFlight - suspects < this.parts.gate.size);
  }

  /** Whose messages it handles. */
  get consumers(): string[] {
    return [...this.handlers.keys()];
  }

  /**
   * Without a handler it does nothing.
   *
   * @throws Error when the `SchedulerRegistry` has another interval of this name
   */
  start(): void {
    if (this.handlers.size === 0 || this.interval.active) return;
    this.interval.start();
    this.wake();
  }

  /**
   * Something was stored that is due after so many milliseconds. What is due later than the next poll is found by that.
   */
  notify(delay = 0): void {
    if (!this.interval.active || delay >= this.parts.pollInterval) return;
    if (delay === 0) {
      this.somethingIsDue = true;
      this.wake();
    } else this.interval.outside(() => setTimeout(() => this.wake(), delay).unref());
  }

  /**
   * Stores messages, and begins at once those that there is room for, unless others wait for that room.
   *
   * @param store the statement
   * @returns what was stored; the others are duplicates
   */
  async storing(
    messages: readonly KeptMessage[],
    store: (claim?: StoringClaim) => Promise<StoredMessage[]>,
  ): Promise<InboxKey[]> {
    await this.unanswered.open(messages);
    const chosen = this.chooseForNow(messages);
    let stored: StoredMessage[] = [];
    let begun = 0;
    if (chosen.size === 0) stored = await store();
    else {
      const claim: ClaimStore<ClaimedInboxMessage>['claim'] = async ({ token, lease }) => {
        stored = await store({ token, lease, messages: chosen }).catch((error: unknown) => {
          this.unanswered.note(token, chosen);
          throw error;
        });
        return claimedOf(stored, chosen);
      };
      begun = await this.take('storing', chosen.size, {
        claim,
        renew: (...renewal) => this.parts.store.renew(...renewal),
      });
    }
    const found = await this.unanswered.conclude(messages, stored);
    if (found.length + stored.length > begun) this.notify();
    return [...found, ...stored];
  }

  /** None with an ordering key: whether it is its turn is found by a claim. And none while a claim has something to find. */
  private chooseForNow(messages: readonly KeptMessage[]): ReadonlySet<KeptMessage> {
    const othersWait = this.isAsked || this.somethingIsDue || this.moreIsDue;
    if (this.stopping || !this.interval.active || othersWait) return new Set();
    const suitable = messages.filter(
      ({ consumer, orderingKey }) => orderingKey === null && this.handlers.has(consumer),
    );
    // What a claim that is under way will bring is not known: only places that are idle are filled meanwhile.
    const room = this.reserved.claiming
      ? this.parts.gate.size - this.running - this.reserved.storing
      : this.capacity - this.inFlight;
    return new Set(suitable.slice(0, Math.max(0, room)));
  }

  /**
   * No claim from here on; what was claimed and has not begun is given back, or will be when the application drains its
   * handlers. May be called twice; never rejects.
   *
   * @param timeout milliseconds to wait for a claim that is under way
   */
  async stop(timeout: number): Promise<void> {
    this.stopping = true;
    this.interval.stop();
    this.wakeUp.request();
    const opening = this.unanswered.open().catch((error: unknown) => this.logger.debug(String(error)));
    await within(timeout, Promise.all([this.loop, opening]));
  }

  private wake(): void {
    if (this.stopping || !this.interval.active) return;
    this.wakeUp.request();
    this.loop ??= this.interval.outside(() => this.work().finally(() => this.ended()));
  }

  private ended(): void {
    this.loop = undefined;
    // It came after the last look.
    if (this.isWoken()) this.wake();
  }

  /** Never rejects. */
  private async work(): Promise<void> {
    while (!this.stopping && this.interval.active) {
      if (this.wakeUp.take()) this.isAsked = true;
      if (this.isAsked && this.isWorthAClaim) {
        this.isAsked = false;
        await this.claimGuarded();
        this.isAsked ||= this.moreIsDue;
        continue;
      }
      if (this.inFlight === 0 && !this.isWoken()) return;
      await this.wakeUp.wait();
    }
  }

  private isWoken(): boolean {
    if (!this.wakeUp.take()) return false;
    this.wakeUp.request();
    return true;
  }

  private async claimGuarded(): Promise<void> {
    const isKnown = this.moreIsDue || this.somethingIsDue;
    this.moreIsDue = this.somethingIsDue = false;
    try {
      const { store } = this.parts;
      await this.unanswered.open();
      if (isKnown || (await store.anythingDue())) {
        // Something may have been begun meanwhile.
        const room = Math.max(1, this.capacity - this.inFlight);
        this.moreIsDue = (await this.take('claiming', room, store)) === room;
      }
      if (this.outage) this.logger.log('Kept messages can be claimed again');
      this.outage = false;
    } catch (error) {
      if (!this.outage) this.logger.error(`Kept messages cannot be claimed, trying again: ${String(error)}`);
      this.outage = true;
      this.somethingIsDue ||= isKnown;
      this.notifyLater();
      return;
    }
    await this.lookForOthers().catch((error: unknown) => this.logger.debug(String(error)));
  }

  private notifyLater(): void {
    setTimeout(() => this.wake(), DATABASE_PAUSE).unref();
  }

  /** Takes a claim and begins what it brings. Its places are taken while it is under way. @returns how many it brought */
  private async take(
    purpose: keyof InboxProcessor['reserved'],
    limit: number,
    store: ClaimStore<ClaimedInboxMessage>,
  ): Promise<number> {
    const terms = { lease: this.parts.lease, limit };
    let claim: Claim<ClaimedInboxMessage> | undefined;
    this.reserved[purpose] += limit;
    try {
      claim = await this.interval.outside(() => Claim.take(store, terms, this.logger));
    } finally {
      this.reserved[purpose] -= limit;
      if (!claim) this.goOn();
    }
    if (!claim) return 0;
    const { messages } = claim;
    this.interval.outside(() => messages.forEach((row) => this.begin(claim, row)));
    this.goOn();
    return messages.length;
  }

  private begin(claim: Claim<ClaimedInboxMessage>, row: ClaimedInboxMessage): void {
    const { running, run } = this.parts;
    const handler = this.handlers.get(row.consumer) as KeptHandler;
    this.running++;
    if (row.suspect) this.suspects++;
    void running
      .track((abort) =>
        new KeptRun(row, claim.token, () => claim.leave(row), handler, abort, run).run(this.stopping),
      )
      .then(() => {
        this.running--;
        if (row.suspect) this.suspects--;
        this.notePace();
        // The next of its key can be claimed.
        if (row.orderingKey !== null) this.isAsked = true;
        this.goOn();
      });
  }

  /** Places have become free. */
  private goOn(): void {
    if (this.isAsked && this.isWorthAClaim) this.wake();
  }

  private notePace(): void {
    const now = performance.now();
    this.pace += 0.1 * (Math.min(now - this.lastEnd, AHEAD) - this.pace);
    this.lastEnd = now;
  }

  /** What a consumer waits for that no instance has any more would wait in silence. */
  private async lookForOthers(): Promise<void> {
    if (performance.now() - this.lookedForOthers < OVERDUE) return;
    this.lookedForOthers = performance.now();
    for (const consumer of await this.parts.store.waitingConsumers(OVERDUE)) {
      if (this.warned.has(consumer)) continue;
      this.warned.add(consumer);
      this.logger.warn(
        `Messages for the consumer "${consumer}" have been due for more than a minute, and this instance has no such ` +
          'handler: they wait until an instance has it. Was it renamed? Then keep the name with the option consumer.',
      );
    }
  }
}
