import { Logger } from '@nestjs/common';
import { Nack } from '@golevelup/nestjs-rabbitmq';
import type { DeadLetterAlarm } from '../dead-letters/dead-letter-alarm';
import type { ClaimedInboxMessage } from '../persistence/inbox-message';
import { ShuttingDownError } from '../transaction/shutting-down.error';
import { describe, type IdentifiedDelivery } from './delivery';
import type { Handling, Outcome } from './handling';
import { Hold } from './held-work';
import type { InboundMessage } from './inbound-message';
import type { InboxTransaction } from './inbox-transaction';
import type { KeptHandler } from './kept-handler';
import type { KeptStore } from './kept-store';
import { NackAnsweredError } from './nack-answered.error';
import { NotReachedError } from './not-reached.error';
import type { Pauses } from './pauses';
import { rawMessage } from './raw-message';
import type { SuspectsLane } from './suspects-lane';
import { thrownMessage, thrownText } from '../message/thrown-text';

/** How a run ended. `lost`: the message was not ours any more, and nothing was done. */
export type RunEnd = 'handled' | 'failed' | 'dead' | 'lost' | 'released';

/** What all runs of one inbox share. */
export interface KeptRunParts {
  readonly store: Pick<KeptStore, 'countSuspect' | 'fail' | 'release'>;
  readonly handling: Handling;
  readonly transaction: Pick<InboxTransaction, 'isTransient'>;
  readonly lane: SuspectsLane;
  readonly pauses: Pauses;
  /** Called after a commit, with the milliseconds until the message is due again. */
  readonly notify: (delay: number) => void;
  readonly alarm: Pick<DeadLetterAlarm, 'raise'>;
  /** Runs by their message, so that the interceptor finds the one that it is called for. */
  readonly runs: WeakMap<object, KeptRun>;
}

/** Before a message is handled again for which nobody is to blame. Milliseconds. */
const BLAMELESS_PAUSE = 1_000;

/**
 * One run of a message that the table owns and this process has claimed. P1:
 *
 * 1. A suspect, which somebody has claimed and never brought back, enters the suspects' lane; when its turn comes that lost run
 *    is counted, in a commit of its own. Over the limit: dead.
 * 2. Rebuild the message (a row that was damaged by hand is dead at once), decode it and run the handler's pipeline. The guards come first, as for a delivery.
 * 3. In our interceptor: end the renewal of the lease; begin; *take first*, under the token (step 8). From here on the row
 *    lock is the lease. The handler; commit. No row: somebody else has it, or had it; nothing was done.
 * 4. Failed: open again with its next date, or dead, under the token (step 9). A failure of the database uses up nothing.
 * 5. The application stops: given back.
 */
export class KeptRun {
  private readonly logger = new Logger('Inbox');
  private readonly delivery: Omit<IdentifiedDelivery, 'handle'>;
  private readonly message: InboundMessage;
  /** Why the message cannot be read; the handler is not called then. */
  private damage: unknown;
  private outcome: Outcome | undefined;
  /** Why there is no outcome although the interceptor was reached: the application stops. */
  private interruption: unknown;
  /** A lost run of it has not been counted yet. */
  private isSuspect: boolean;

  /** @param leave ends the renewal of the lease */
  constructor(
    private readonly row: ClaimedInboxMessage,
    private readonly token: string,
    leave: () => Promise<void>,
    private readonly handler: KeptHandler,
    private readonly abort: AbortSignal,
    private readonly parts: KeptRunParts,
  ) {
    this.message = this.read(row);
    this.isSuspect = row.suspect;
    this.delivery = {
      policy: handler.policy,
      message: this.message,
      payload: () => handler.decode(this.message),
      key: { consumer: row.consumer, messageId: row.messageId },
      orderingKey: row.orderingKey ?? undefined,
      attempt: row.attempts + (row.suspect ? 2 : 1),
      claim: { token, leave },
    };
  }

  private read(row: ClaimedInboxMessage): InboundMessage {
    try {
      return rawMessage(row);
    } catch (error) {
      this.damage = error;
      return rawMessage({ ...row, headers: null, properties: null });
    }
  }

  /**
   * Never rejects.
   *
   * @param isTooLate the application stops: only give it back
   */
  async run(isTooLate = false): Promise<RunEnd> {
    try {
      if (isTooLate) return await this.release();
      return this.row.suspect
        ? await this.parts.lane.run(() => this.runSuspect())
        : await this.handle(this.row.attempts);
    } catch (error) {
      if (!(error instanceof ShuttingDownError)) {
        this.logger.error(`The run of the ${this.name} failed: ${thrownText(error)}`);
      }
      return this.release();
    } finally {
      // Whatever has happened: nothing may go on renewing it.
      await this.delivery.claim?.leave();
    }
  }

  /**
   * What our interceptor does instead of the protocol of a delivery.
   *
   * @param handle everything inside of the interceptor
   * @returns the answer for what is around: never a success that is none
   */
  async intercept(handle: () => Promise<unknown>): Promise<unknown> {
    const { handling } = this.parts;
    const delivery = { ...this.delivery, handle };
    const { isJoined } = handling;
    try {
      this.outcome = await (isJoined
        ? handling.join(delivery, this.abort)
        : handling.run(delivery, this.abort));
    } catch (error) {
      // A filter around may make a success of it.
      this.interruption = error;
      throw error;
    }
    if (this.outcome.kind === 'handled') return this.outcome.value;
    // The application's transaction around has to roll back too.
    if (isJoined) throw this.outcome.kind === 'failed' ? this.outcome.error : new Error('Not ours any more');
    return new Nack(false);
  }

  private async runSuspect(): Promise<RunEnd> {
    const { store, pauses } = this.parts;
    pauses.assertRunning();
    const attempts = await store.countSuspect(this.row, this.token);
    if (attempts === undefined) return 'lost';
    // What comes now is not lost: where the application stops it is given back as any other.
    this.isSuspect = false;
    // One lost run alone is no verdict: it may never have begun.
    if (attempts < Math.max(this.handler.policy.maxAttempts, 2)) return this.handle(attempts);
    const error = new Error(
      `Given up after ${attempts} runs, the last without an outcome: the process may have died. Before that: ` +
        (this.row.lastError ?? 'no error was recorded.'),
    );
    return this.fail({ attempts, error, next: 'dead' });
  }

  private async handle(attempts: number): Promise<RunEnd> {
    const failure = await this.invoke();
    if (this.interruption) throw this.interruption as Error;
    if (this.abort.aborted && failure) throw new ShuttingDownError();
    if (this.outcome?.kind === 'duplicate') {
      this.logger.debug(`The ${this.name} is not ours any more; it was not handled here.`);
      return 'lost';
    }
    if (!failure) return 'handled';
    const { error } = failure;
    const isJudged = this.outcome?.kind === 'failed' && !this.outcome.blameless;
    if (!isJudged && this.parts.transaction.isTransient(error)) {
      return this.fail({ attempts, error, next: BLAMELESS_PAUSE });
    }
    return this.fail({ attempts: attempts + 1, error, next: this.next(attempts + 1, error) });
  }

  /** @returns what went wrong */
  private async invoke(): Promise<{ readonly error: unknown } | undefined> {
    if (this.damage) return { error: this.damage };
    this.parts.runs.set(this.message, this);
    try {
      await this.handler.invoke(this.handler.decode(this.message), this.message);
    } catch (error) {
      // What fails around after the commit changes nothing any more.
      if (this.outcome?.kind === 'handled' && !this.outcome.provisional) {
        this.logger.debug(`The ${this.name} was handled, but then: ${thrownText(error)}`);
        return undefined;
      }
      return { error: this.outcome?.kind === 'failed' ? this.outcome.error : error };
    }
    if (this.outcome?.kind === 'failed') return { error: this.outcome.error };
    if (this.outcome === undefined) return { error: new NotReachedError(this.handler.name) };
    return undefined;
  }

  private next(attempts: number, error: unknown): number | 'dead' {
    if (error instanceof NackAnsweredError && !error.requeue) return 'dead';
    const { maxAttempts, retry } = this.handler.policy;
    return attempts >= maxAttempts ? 'dead' : retry.next(attempts, error);
  }

  private async fail(run: {
    readonly attempts: number;
    readonly error: unknown;
    readonly next: number | 'dead';
  }): Promise<RunEnd> {
    const { row, token, parts } = this;
    await this.delivery.claim?.leave();
    const isOurs = await this.insist(() => parts.store.fail({ key: row, token, ...run }));
    const fate = run.next === 'dead' ? 'it is dead' : `it is handled again in ${run.next} ms`;
    const reason = thrownMessage(run.error);
    const stack = run.error instanceof Error ? run.error.stack : undefined;
    this.logger.error(
      `The ${this.name} failed ${run.attempts} times and was rolled back; ${isOurs ? fate : 'it has a new owner'}: ${reason}`,
      stack,
    );
    if (!isOurs) return 'lost';
    if (run.next !== 'dead') {
      parts.notify(run.next);
      return 'failed';
    }
    const { consumer, messageId, exchange, routingKey } = row;
    const message = { consumer, messageId, exchange, routingKey };
    parts.alarm.raise({ box: 'inbox', ...message, attempts: run.attempts, error: reason, cause: run.error });
    return 'dead';
  }

  /** One that cannot be given back is found by its lease, which runs out. */
  private async release(): Promise<RunEnd> {
    const { row, token, parts } = this;
    try {
      await this.delivery.claim?.leave();
      return (await parts.store.release(row, token, this.isSuspect)) ? 'released' : 'lost';
    } catch (error) {
      this.logger.warn(
        `The ${this.name} could not be given back, its lease has to run out: ${String(error)}`,
      );
      return 'lost';
    }
  }

  private insist<T>(work: () => Promise<T>): Promise<T> {
    return new Hold(this.parts.pauses, this.logger, () => `the ${this.name}`).insist(work);
  }

  private get name(): string {
    return describe(this.delivery);
  }
}
