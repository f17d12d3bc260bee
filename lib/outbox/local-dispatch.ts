import type { LoggerService } from '@nestjs/common';
import type { DeadLetterAlarm } from '../dead-letters/dead-letter-alarm';
import type { ResolvedOutboxOptions } from '../resolved-options';
import { createRetryPolicy } from '../message/retry-policy';
import { guardedLogger } from '../scheduling/guarded-logger';
import { ConcurrencyGate } from '../transaction/concurrency-gate';
import type { LocalHandlers } from '../transport/local/local-handlers';
import type { HandlerRuns } from '../transport/local/run-outcome';
import { HandlerPauses } from './handler-pauses';
import { LocalLane, type LaneResult } from './local-lane';
import { type DispatchCounts, noCounts } from './outbox-batch';
import type { OutboxStore } from './outbox-store';

export interface LocalDispatchDependencies {
  readonly store: OutboxStore;
  readonly handlers: LocalHandlers;
  readonly transactionalRuns: HandlerRuns;
  readonly detachedRuns: HandlerRuns;
  /** Of all handlers that hold a connection of this data source. */
  readonly gate: ConcurrencyGate;
  readonly options: ResolvedOutboxOptions;
  readonly alarm: Pick<DeadLetterAlarm, 'raise'>;
  readonly logger: LoggerService;
}

/** Milliseconds until the database is asked again after trouble: the first pause, doubled up to the longest. */
const FIRST_PAUSE = 100;
const LONGEST_PAUSE = 5_000;
/** A handler name that nobody seems to know: how long its messages have to wait first, how often to look, how often to tell. */
const NEGLECTED_AFTER = 60_000;
const LOOK_INTERVAL = 60_000;
const TELL_INTERVAL = 600_000;
/** Milliseconds that a stop grants for rolling back and giving back after its timeout. */
const LAST_WORDS = 3_000;

/**
 * Runs the messages of this process' local handlers, as a part of the dispatcher and driven by its polls and wake-ups.
 *
 * Every process runs them, whoever leads: leadership is there so that brokers get their messages from one process, and the
 * leader may be one that does not know a handler (an older release, or another program on the same tables). The claims
 * exclude each other by themselves. Handlers with and without a transaction are apart, each kind with places of its own.
 */
export class LocalDispatch {
  private readonly lanes: readonly LocalLane[];
  private readonly logger: LoggerService;
  private readonly pauses = new HandlerPauses(() => this.wake());
  private readonly told = new Map<string, number>();
  private wanted: () => boolean = () => true;
  private stopped = false;
  private launching = false;
  private pause: NodeJS.Timeout | undefined;
  private troubles = 0;
  private outage = false;
  private looked = -Infinity;

  constructor(private readonly use: LocalDispatchDependencies) {
    const { store, handlers, gate, options, alarm, transactionalRuns, detachedRuns } = use;
    this.logger = guardedLogger(use.logger);
    const { maxConcurrentHandlers: limit, lease, maxAttempts, backoff, retryIf } = options;
    const common = {
      store,
      pauses: this.pauses,
      limit,
      alarm,
      lease,
      keepSent: options.retention !== false,
      retry: createRetryPolicy(maxAttempts, backoff, { retryIf, logger: this.logger }),
      logger: this.logger,
      wanted: () => this.wanted(),
    };
    this.lanes = [
      new LocalLane({
        ...common,
        handlers: () => handlers.ofKind(true),
        runs: transactionalRuns,
        renews: false,
        gate: new ConcurrencyGate(limit, gate),
      }),
      new LocalLane({
        ...common,
        handlers: () => handlers.ofKind(false),
        runs: detachedRuns,
        renews: true,
        gate: new ConcurrencyGate(limit),
      }),
    ];
  }

  /** @param wanted whether the dispatcher works; asked before each claim */
  start(wanted: () => boolean): void {
    this.wanted = wanted;
    this.stopped = false;
    for (const lane of this.lanes) lane.resume();
  }

  /** Something may be due. Never throws. */
  wake(): void {
    if (this.stopped || this.use.handlers.size === 0) return;
    // A pass that is running looks again by itself.
    const isSeen = this.lanes.map((lane) => lane.request()).every(Boolean);
    if (isSeen || this.launching || this.pause) return;
    this.launching = true;
    setImmediate(() => {
      this.launching = false;
      if (this.stopped || this.pause || !this.wanted()) return;
      for (const lane of this.lanes) if (!lane.isRunning) this.launch(lane);
    });
  }

  /** As {@link wake}; and looks, now and then, for messages that nobody handles. */
  poll(): void {
    this.wake();
    if (performance.now() - this.looked < LOOK_INTERVAL) return;
    this.looked = performance.now();
    void this.warnOfNeglected();
  }

  /**
   * One pass of each kind of handler.
   *
   * @throws whatever the database says
   */
  async runOnce(): Promise<LaneResult> {
    const { wanted } = this;
    this.wanted = () => true;
    try {
      return sum(await Promise.all(this.lanes.map((lane) => lane.run())));
    } finally {
      this.wanted = wanted;
    }
  }

  /** No new claim. Waits for handlers that run; then those are cut off and their messages handed back. Never rejects. */
  async stop(timeout: number): Promise<void> {
    this.stopped = true;
    clearTimeout(this.pause);
    this.pause = undefined;
    this.pauses.endAll();
    await Promise.all(this.lanes.map((lane) => lane.stop(timeout, LAST_WORDS)));
  }

  private launch(lane: LocalLane): void {
    lane.run().then(
      ({ trouble, counts }) => {
        if (this.outage) this.logger.log('Local handlers are run again');
        this.outage = false;
        if (counts.sent > 0 || !trouble) this.troubles = 0;
        if (trouble) this.pauseForTrouble();
        // It came after the last look.
        else if (lane.isRequested) this.wake();
      },
      (error: unknown) => {
        if (!this.outage)
          this.logger.error(`Running local handlers failed and is tried again: ${String(error)}`);
        this.outage = true;
        this.pauseForTrouble();
      },
    );
  }

  private pauseForTrouble(): void {
    if (this.stopped || this.pause) return;
    const milliseconds = Math.min(FIRST_PAUSE * 2 ** this.troubles++, LONGEST_PAUSE);
    this.pause = setTimeout(() => {
      this.pause = undefined;
      this.wake();
    }, milliseconds).unref();
  }

  /** Nobody is to blame during a rolling deployment; afterwards somebody should know. */
  private async warnOfNeglected(): Promise<void> {
    const { store, handlers } = this.use;
    try {
      for (const name of await store.neglectedHandlers(handlers.names, NEGLECTED_AFTER)) {
        const last = this.told.get(name) ?? -Infinity;
        if (performance.now() - last < TELL_INTERVAL) continue;
        this.told.set(name, performance.now());
        this.logger.warn(
          `Messages for the handler ${JSON.stringify(name)} have been waiting for more than a minute, and this process has ` +
            'no @OutboxHandler() of that name. They wait until there is a process that has.',
        );
      }
    } catch (error) {
      this.logger.debug?.(`Could not look for messages that nobody handles: ${String(error)}`);
    }
  }
}

function sum(results: readonly LaneResult[]): LaneResult {
  const counts: DispatchCounts = noCounts();
  for (const result of results) {
    for (const kind of Object.keys(counts) as (keyof DispatchCounts)[]) counts[kind] += result.counts[kind];
  }
  return { counts, trouble: results.some(({ trouble }) => trouble) };
}
