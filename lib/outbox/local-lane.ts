import type { LoggerService } from '@nestjs/common';
import { Claim } from '../claiming/claim';
import { persistUntil } from '../claiming/persist-until';
import type { DeadLetterAlarm } from '../dead-letters/dead-letter-alarm';
import type { RetryPolicy } from '../message/retry-policy';
import type { ClaimedMessage, Settlement } from '../persistence/outbox-statements';
import { abortControllerForMany } from '../timing/abort-controller-for-many';
import { within } from '../timing/within';
import type { ConcurrencyGate, LeaveGate } from '../transaction/concurrency-gate';
import type { LocalHandler } from '../transport/local/local-handler';
import type { HandlerRuns, RunOutcome } from '../transport/local/run-outcome';
import type { HandlerPauses } from './handler-pauses';
import { handlerRooms } from './handler-rooms';
import { type DispatchCounts, noCounts } from './outbox-batch';
import type { OutboxStore } from './outbox-store';
import { WakeUp } from './wake-up';
import { thrownDetails, thrownText } from '../message/thrown-text';

export interface LocalLaneDependencies {
  readonly store: OutboxStore;
  /** Asked for each claim, since they are found after this is built. */
  readonly handlers: () => readonly LocalHandler[];
  readonly runs: HandlerRuns;
  readonly pauses: HandlerPauses;
  /** Whether claims are renewed while handlers run. */
  readonly renews: boolean;
  /** Runs at once, and whatever else they have to wait for. */
  readonly gate: ConcurrencyGate;
  /** Messages claimed at once; the gate's size. */
  readonly limit: number;
  readonly lease: number;
  readonly keepSent: boolean;
  readonly retry: RetryPolicy;
  readonly alarm: Pick<DeadLetterAlarm, 'raise'>;
  readonly logger: LoggerService;
  /** Whether the dispatcher still wants to work. */
  readonly wanted: () => boolean;
}

export interface LaneResult {
  readonly counts: DispatchCounts;
  /** Whether the database got in the way, so that going on at once would meet the same. */
  readonly trouble: boolean;
}

/** Milliseconds until the database is asked again after trouble, while handlers run. */
const TROUBLE_PAUSE = 300;

/** Handlers under which the connection dies this often in a row are what kills it. */
const MAX_LOST_CONNECTIONS = 5;

/** What is remembered of lost connections, in messages. */
const MAX_REMEMBERED = 1_000;

/**
 * One pass over the messages of local handlers of one kind.
 *
 * 1. Take places at the gate, then claim as many messages as there are places, and of each handler as many as it has room
 *    for: what is claimed begins at once, so that nothing waits in this process while another could do it.
 * 2. Run each handler (see transactional-runs.ts and detached-runs.ts), and settle each message when it ends, by itself: a
 *    slow one holds up no other.
 * 3. Whenever one has ended, or somebody has enqueued, go on with 1. The pass ends when nothing is due and nothing runs.
 *
 * Messages of handlers that this process does not know, or that make a pause, are not claimed and hold up nothing.
 */
export class LocalLane {
  private readonly wakeUp = new WakeUp();
  private readonly running = new Map<Promise<void>, LocalHandler>();
  /** By sequence: what is running in this process. */
  private readonly outcomes = new Map<string, Promise<RunOutcome>>();
  private readonly lost = new Map<string, number>();
  private shutdown = abortControllerForMany();
  private counts = noCounts();
  private trouble = false;
  /** Of a claim, since the last one that worked. */
  private failure: { readonly error: unknown } | undefined;
  private stopping = false;
  private pass: Promise<LaneResult> | undefined;

  constructor(private readonly use: LocalLaneDependencies) {}

  get isRunning(): boolean {
    return this.pass !== undefined;
  }

  /** Whether no pass has looked yet since {@link request}. */
  get isRequested(): boolean {
    return this.wakeUp.isRequested;
  }

  /** Look again. @returns whether a pass is running that does, or there is nothing to look for */
  request(): boolean {
    if (this.use.handlers().length === 0) return true;
    this.wakeUp.request();
    return this.isRunning;
  }

  /**
   * One pass; when one is running already, another after it.
   *
   * @throws the error of the database, once nothing is running any more
   */
  async run(): Promise<LaneResult> {
    while (this.pass) await this.pass.catch(() => undefined);
    this.pass = this.perform().finally(() => (this.pass = undefined));
    return this.pass;
  }

  /** After a {@link stop}: it may claim again. */
  resume(): void {
    this.stopping = false;
    if (this.shutdown.signal.aborted) this.shutdown = abortControllerForMany();
  }

  /** No new claim. Waits for what runs; what has not ended after the timeout is cut off and handed back. */
  async stop(timeout: number, lastWords: number): Promise<void> {
    this.stopping = true;
    this.wakeUp.request();
    const over = this.pass?.catch(() => undefined);
    if (!over || (await within(timeout, over))) return;
    this.use.logger.warn(
      `Shutdown: ${this.running.size} local handlers had not finished, their messages are handed back`,
    );
    this.shutdown.abort();
    await within(lastWords, over);
  }

  private async perform(): Promise<LaneResult> {
    this.counts = noCounts();
    this.trouble = false;
    this.failure = undefined;
    try {
      await this.drain();
    } finally {
      await Promise.all(this.running.keys());
    }
    const failure = this.failure as { readonly error: unknown } | undefined;
    if (failure) throw failure.error;
    return { counts: this.counts, trouble: this.trouble };
  }

  private async drain(): Promise<void> {
    while (this.mayGoOn()) {
      this.wakeUp.take();
      if (await this.claimInPeace()) continue;
      // Asked for, or a key has become free, while the database was being asked, which may not have seen it yet.
      if (this.wakeUp.isRequested && !this.trouble) continue;
      if (this.running.size === 0) return;
      if (this.trouble) await this.letTroublePass();
      else await Promise.race([...this.running.keys(), this.wakeUp.wait()]);
    }
  }

  private async claimInPeace(): Promise<boolean> {
    if (this.trouble) return false;
    try {
      return await this.claim();
    } catch (error) {
      this.failure = { error };
      this.trouble = true;
      return false;
    }
  }

  /** The pass goes on while a handler runs, which may take hours; otherwise trouble ends it. */
  private async letTroublePass(): Promise<void> {
    if (await within(TROUBLE_PAUSE, Promise.all(this.running.keys()))) return;
    this.trouble = false;
    this.failure = undefined;
  }

  /** @returns whether there may be more to claim */
  private async claim(): Promise<boolean> {
    const { store, gate, lease, limit, logger, handlers, pauses } = this.use;
    const rooms = handlerRooms(handlers(), this.running.values(), limit, pauses);
    if (rooms.length === 0 || !(await store.anyLocalDue(rooms.map(({ name }) => name)))) return false;
    const places = await this.takePlaces(rooms.reduce((sum, { limit }) => sum + limit, 0));
    try {
      if (!this.mayGoOn()) return false;
      const claims = store.localClaims(rooms);
      const claim = await Claim.take(claims, { lease, limit: places.length }, logger);
      if (!claim) return false;
      if (!this.use.renews) await claim.endRenewal();
      for (const message of claim.messages) this.start(message, claim, places.pop() as LeaveGate);
      return gate.size > this.running.size;
    } finally {
      for (const leave of places) leave();
    }
  }

  /** Waits for one, and takes what else is free. */
  private async takePlaces(wanted: number): Promise<LeaveGate[]> {
    const { gate, limit } = this.use;
    const places = [await gate.enter()];
    while (places.length < Math.min(wanted, limit)) {
      const place = gate.tryEnter();
      if (!place) break;
      places.push(place);
    }
    return places;
  }

  private start(message: ClaimedMessage, claim: Claim<ClaimedMessage>, leave: LeaveGate): void {
    const handler = this.use.handlers().find(({ name }) => name === message.routingKey) as LocalHandler;
    const done = this.handle(handler, message, claim).finally(() => {
      leave();
      this.running.delete(done);
      this.wakeUp.request();
    });
    this.running.set(done, handler);
  }

  /** Never rejects. */
  private async handle(
    handler: LocalHandler,
    message: ClaimedMessage,
    claim: Claim<ClaimedMessage>,
  ): Promise<void> {
    const outcome = this.withoutLoop(message, await this.runOnceAtATime(handler, message, claim));
    if (outcome.kind === 'interrupted' && outcome.reason === 'database') this.trouble = true;
    const settlement = this.settlement(handler, message, claim.token, outcome);
    await claim.leave(message);
    if (settlement) await this.settle(message, settlement, claim, outcome);
  }

  /**
   * A claim that could not be renewed (the database was away) can come back to this process while the handler still runs. It
   * does not run twice at once: the outcome of the run that is under way counts for both claims.
   */
  private runOnceAtATime(
    handler: LocalHandler,
    message: ClaimedMessage,
    claim: Claim<ClaimedMessage>,
  ): Promise<RunOutcome> {
    const { seq } = message;
    const underWay = this.outcomes.get(seq);
    if (underWay) return underWay;
    const outcome = this.outcomeOf(handler, message, claim).finally(() => this.outcomes.delete(seq));
    this.outcomes.set(seq, outcome);
    return outcome;
  }

  private async outcomeOf(
    handler: LocalHandler,
    message: ClaimedMessage,
    claim: Claim<ClaimedMessage>,
  ): Promise<RunOutcome> {
    if (message.expired) {
      return { kind: 'failed', error: new Error('Expired before it could be handled'), permanent: true };
    }
    // A process that was paused after the claim.
    if (!claim.valid) return { kind: 'lost' };
    const abort = this.shutdown.signal;
    return this.use.runs.run({ handler, message, token: claim.token, abort });
  }

  /** A handler that kills its connection each time would be run for ever. */
  private withoutLoop(message: ClaimedMessage, outcome: RunOutcome): RunOutcome {
    const { messageId } = message;
    if (outcome.kind !== 'interrupted' || outcome.during !== 'handler') {
      this.lost.delete(messageId);
      return outcome;
    }
    const times = (this.lost.get(messageId) ?? 0) + 1;
    if (this.lost.size >= MAX_REMEMBERED) this.lost.clear();
    this.lost.set(messageId, times);
    return times > MAX_LOST_CONNECTIONS ? { kind: 'failed', error: outcome.error } : outcome;
  }

  /** @returns `undefined` when there is nothing left to write */
  private settlement(
    { name, options }: LocalHandler,
    { seq, messageId, attempts, retry }: ClaimedMessage,
    token: string,
    outcome: RunOutcome,
  ): Settlement | undefined {
    const { keepSent, logger, pauses } = this.use;
    const nothing = { token, sent: [], failed: [], released: [], keepSent };
    switch (outcome.kind) {
      case 'done':
        this.counts.sent++;
        return options.transactional ? undefined : { ...nothing, sent: [seq] };
      case 'lost':
        logger.warn(
          `Message ${messageId} for the handler "${name}" has a new owner or is gone; it is left alone`,
        );
        return undefined;
      case 'interrupted':
        this.counts.released++;
        logger.debug?.(
          `Message ${messageId} for the handler "${name}" is given back: ${thrownText(outcome.error)}`,
        );
        return { ...nothing, released: [seq] };
      case 'unavailable':
        this.counts.released++;
        pauses.begin(name, outcome.error.retryAfter);
        logger.debug?.(`The handler "${name}" makes a pause: ${thrownText(outcome.error)}`);
        return { ...nothing, released: [seq] };
      case 'failed': {
        const own = retry ?? options.retry;
        const next = outcome.permanent ? 'dead' : this.use.retry.next(attempts + 1, outcome.error, own);
        this.counts[next === 'dead' ? 'dead' : 'failed']++;
        const what = `Message ${messageId} for the handler "${name}"`;
        if (next === 'dead') logger.error(`${what} is dead: ${thrownText(outcome.error)}`);
        else logger.warn(`${what} failed and is tried again later: ${thrownText(outcome.error)}`);
        return { ...nothing, failed: [{ seq, error: thrownDetails(outcome.error), next }] };
      }
    }
  }

  private async settle(
    message: ClaimedMessage,
    settlement: Settlement,
    claim: Claim<ClaimedMessage>,
    outcome: RunOutcome,
  ): Promise<void> {
    const { store, lease, logger } = this.use;
    // Not the claim's lease, which is not renewed while a transaction holds the row.
    const end = performance.now() + lease;
    let failure: unknown;
    const write = async () => {
      const { dead } = await store.settle(settlement);
      if (dead.length > 0) this.raise(message, settlement, outcome);
    };
    const settled = await persistUntil(write, {
      goOn: () => (claim.valid || performance.now() < end) && !this.shutdown.signal.aborted,
      onFailure: (error) => (failure = error),
    });
    if (settled) return;
    this.trouble = true;
    logger.error(
      `The outcome of message ${message.messageId} could not be written; it is handled again with the same id: ${String(failure)}`,
    );
  }

  private raise(message: ClaimedMessage, { failed }: Settlement, outcome: RunOutcome): void {
    const { messageId, exchange, routingKey, attempts } = message;
    this.use.alarm.raise({
      ...{ box: 'outbox', messageId, exchange, routingKey, attempts: attempts + 1 },
      error: failed[0]?.error ?? '',
      ...(outcome.kind === 'failed' && { cause: outcome.error }),
    });
  }

  private mayGoOn(): boolean {
    return !this.stopping && this.use.wanted();
  }
}
