import type { LoggerService } from '@nestjs/common';
import type { DataSource } from 'typeorm';
import type { DeadLetterAlarm } from '../dead-letters/dead-letter-alarm';
import type { ResolvedOutboxOptions } from '../resolved-options';
import { Leader } from '../locking/leader';
import { LockStore } from '../locking/lock-store';
import { createRetryPolicy, type RetryPolicy } from '../message/retry-policy';
import type { Dialect } from '../persistence/dialect';
import { guardedLogger } from '../scheduling/guarded-logger';
import { type IntervalRegistry, NamedInterval } from '../scheduling/named-interval';
import { within } from '../timing/within';
import type { Transport } from '../transport/transport';
import { DispatchPass, type PassResult } from './dispatch-pass';
import { IdlePolls } from './idle-polls';
import { noCounts } from './outbox-batch';
import type { LocalDispatch } from './local-dispatch';
import { combined } from './pass-result';
import { OutboxStore } from './outbox-store';
import { Postponements } from './postponements';
import { WakeUp } from './wake-up';

export interface OutboxDispatcherDependencies {
  readonly dataSource: DataSource;
  readonly dialect: Dialect;
  readonly transport: Transport;
  readonly options: ResolvedOutboxOptions;
  readonly scheduler: IntervalRegistry;
  readonly logger: LoggerService;
  /** Default: from the options `maxAttempts`, `backoff` and `retryIf`. */
  readonly retry?: RetryPolicy;
  /** Told of messages that have become dead. Default: nobody is. */
  readonly alarm?: Pick<DeadLetterAlarm, 'raise'>;
  /** Whether other processes are certainly heard when they write. Default: they are not. */
  readonly hears?: () => boolean;
  /** Of the data source, where it has one: part of the names of the job and the lock. */
  readonly name?: string;
  /** What is for handlers in this process. Default: there are none. */
  readonly local?: LocalDispatch;
  /** False where the application has no broker: then only local handlers are run. Default true. */
  readonly hasBroker?: () => boolean;
}

export interface StopOptions {
  /** Milliseconds to wait for the confirms that are under way. Default 20,000. */
  readonly timeout?: number;
}

/** Milliseconds until the database is asked again after it failed. */
const DATABASE_PAUSE = 300;
/** Milliseconds until the broker is tried again after trouble: the first pause, doubled up to the longest. */
const FIRST_PAUSE = 100;
const LONGEST_PAUSE = 5_000;
/** Milliseconds that a stop grants for settling and releasing after its timeout. */
const LAST_WORDS = 2_000;

/**
 * Sends what is in the outbox: as the interval `outbox-dispatcher` in the `SchedulerRegistry`, where users see it and can
 * stop it (deleting the interval there ends dispatching in this process). What a pass does is told at `DispatchPass`.
 *
 * - Never two passes at once in a process. A wake-up during a pass is seen by that pass.
 * - A pass that fails (database away) is logged once per outage and tried again after 300 ms.
 * - After trouble with the broker there is a pause, doubled each time up to 5 s and ended by the broker's return.
 * - While nothing happens polls are left out (see idle-polls.ts).
 * - Everything runs in the async context of the constructor, whoever calls `notify()` from within whatever transaction.
 */
export class OutboxDispatcher {
  private readonly interval: NamedInterval;
  private readonly leader: Leader;
  private readonly store: OutboxStore;
  private readonly retry: RetryPolicy;
  private readonly logger: LoggerService;
  private readonly wakeUp = new WakeUp();
  private readonly postponements = new Postponements();
  private readonly idlePolls: IdlePolls;
  private pass: DispatchPass | undefined;
  private running: Promise<PassResult> | undefined;
  private stopped: Promise<void> | undefined;
  private unsubscribe: (() => void) | undefined;
  /** Armed while a pause is on; nothing but its end, the broker's return or a `runOnce()` starts a pass meanwhile. */
  private pause: NodeJS.Timeout | undefined;
  private launchPending = false;
  private troubles = 0;
  private follows = false;
  private outage = false;

  constructor(private readonly use: OutboxDispatcherDependencies) {
    const { options, name } = use;
    const jobName = name ? `outbox-dispatcher:${name}` : 'outbox-dispatcher';
    this.logger = guardedLogger(use.logger);
    this.store = new OutboxStore({ ...use, haltOnDead: options.onDeadLetter === 'halt' });
    const { retryIf } = options;
    this.retry =
      use.retry ?? createRetryPolicy(options.maxAttempts, options.backoff, { retryIf, logger: this.logger });
    this.interval = new NamedInterval(use.scheduler, jobName, options.pollInterval, () => this.tick());
    this.idlePolls = new IdlePolls({ ...options, hears: use.hears ?? (() => false) });
    const wanted = () => this.running !== undefined || this.interval.active;
    this.leader = new Leader(new LockStore(use), jobName, options.lease, this.logger, wanted);
  }

  /**
   * Starts polling and listening. With `dispatch: 'off'` it does nothing.
   *
   * @throws Error when the `SchedulerRegistry` has another interval of this name
   */
  start(): void {
    if (this.use.options.dispatch === 'off' || this.interval.active) return;
    this.stopped = undefined;
    this.interval.start();
    this.use.local?.start(() => this.interval.active);
    this.unsubscribe = this.use.transport.onAvailable(() => this.brokerIsBack());
    this.poll();
  }

  /**
   * No new claim from here on. Waits for the confirms that are under way, settles them, gives the rest back and releases
   * the lock. May be called twice; never rejects. The transport is left open: it is not the dispatcher's.
   */
  stop(options: StopOptions = {}): Promise<void> {
    this.stopped ??= this.interval.outside(() => this.shutDown(options.timeout ?? 20_000));
    return this.stopped;
  }

  /**
   * Runs one pass and tells how many messages ended in which way; waits for the one that is running. It works without
   * `start()`, whatever `dispatch` says (with `'off'` as a leader would), which is what tests and external schedulers use.
   *
   * @throws whatever the database says
   */
  async runOnce(): Promise<PassResult> {
    if (this.stopped) return { ...noCounts(), end: 'stopped' };
    const { local } = this.use;
    const [broker, handlers] = await Promise.all([
      this.hasBroker ? this.runBrokerOnce() : undefined,
      local && this.interval.outside(() => local.runOnce()),
    ]);
    return combined(broker, handlers);
  }

  private async runBrokerOnce(): Promise<PassResult> {
    while (this.running) await this.running.catch(() => undefined);
    if (this.stopped) return { ...noCounts(), end: 'stopped' };
    return this.interval.outside(() => this.runPass(() => true));
  }

  private get hasBroker(): boolean {
    return this.use.hasBroker?.() ?? true;
  }

  /** Something was committed: look now and not at the next poll. Cheap, and many calls make one pass. Never throws. */
  notify(): void {
    this.idlePolls.awake();
    if (this.mayWake) this.interval.outside(() => this.use.local?.wake());
    // Who does not lead would ask for the lock with each commit; it does so with each poll.
    if (this.follows) return;
    this.wake();
  }

  private tick(): void {
    if (!this.idlePolls.mayRest) this.poll();
  }

  private poll(): void {
    if (this.mayWake) this.interval.outside(() => this.use.local?.poll());
    this.follows = false;
    this.wake();
  }

  private get mayWake(): boolean {
    return !this.stopped && this.interval.active;
  }

  private brokerIsBack(): void {
    this.troubles = 0;
    this.endPause();
    this.poll();
  }

  private wake(): void {
    if (!this.mayWake || !this.hasBroker) return;
    this.wakeUp.request();
    if (this.running || this.launchPending || this.pause) return;
    this.launchPending = true;
    // Not at once: whatever is committed in the same turn of the event loop is part of the same pass.
    this.interval.outside(() => setImmediate(() => this.launch()));
  }

  private launch(): void {
    this.launchPending = false;
    if (this.running || this.stopped || this.pause || !this.interval.active) return;
    this.runPass(() => this.interval.active).then(
      (result) => this.ended(result),
      (error: unknown) => this.failed(error),
    );
  }

  private runPass(wanted: () => boolean): Promise<PassResult> {
    const { transport, options } = this.use;
    const pass = new DispatchPass({
      store: this.store,
      transport,
      leader: options.dispatch === 'competing' ? undefined : this.leader,
      options,
      retry: this.retry,
      postponements: this.postponements,
      alarm: this.use.alarm ?? { raise: () => undefined },
      wakeUp: this.wakeUp,
      logger: this.logger,
      wanted,
    });
    this.pass = pass;
    this.running = this.perform(pass).finally(() => {
      this.running = undefined;
      this.pass = undefined;
    });
    return this.running;
  }

  private async perform(pass: DispatchPass): Promise<PassResult> {
    try {
      const result = await pass.run();
      if (!wasIdle(result)) this.idlePolls.awake();
      else if (this.idlePolls.quiet) this.idlePolls.rest(await this.store.untilNextDate());
      return result;
    } finally {
      // A single pass, or one during which a user has deleted the interval: nothing would work under this leadership.
      if (!this.interval.active && !this.stopped) await this.leader.resign();
    }
  }

  private ended({ end, sent }: PassResult): void {
    if (this.outage) this.logger.log('Dispatching works again');
    this.outage = false;
    this.follows = end === 'follower';
    if (sent > 0 || end === 'idle') this.troubles = 0;
    if (end === 'trouble') {
      this.pauseFor(Math.min(FIRST_PAUSE * 2 ** this.troubles++, LONGEST_PAUSE));
    } else if (end === 'idle' && this.wakeUp.take()) {
      // It came after the last look.
      this.wake();
    }
  }

  private failed(error: unknown): void {
    if (!this.outage) this.logger.error(`Dispatching failed and is tried again: ${String(error)}`);
    this.outage = true;
    this.pauseFor(DATABASE_PAUSE);
  }

  private pauseFor(milliseconds: number): void {
    if (this.stopped) return;
    this.endPause();
    this.pause = this.interval.outside(() => setTimeout(() => this.endPause(true), milliseconds).unref());
  }

  private endPause(andPoll = false): void {
    clearTimeout(this.pause);
    this.pause = undefined;
    if (andPoll) this.poll();
  }

  private async shutDown(timeout: number): Promise<void> {
    this.interval.stop();
    this.unsubscribe?.();
    this.endPause();
    this.pass?.stop();
    await Promise.all([this.endPass(timeout), this.use.local?.stop(timeout)]);
    await within(LAST_WORDS, this.leader.resign());
  }

  private async endPass(timeout: number): Promise<void> {
    const over = this.running?.catch(() => undefined);
    if (!over || (await within(timeout, over))) return;
    this.pass?.giveUp();
    await within(LAST_WORDS, over);
  }
}

/** Nothing was due, and this process was the one to look. */
function wasIdle({ end, ...counts }: PassResult): boolean {
  return end === 'idle' && Object.values(counts).every((count) => count === 0);
}
