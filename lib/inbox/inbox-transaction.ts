import { Nack } from '@golevelup/nestjs-rabbitmq';
import type { EntityManager, QueryRunner } from 'typeorm';
import type { Dialect } from '../persistence/dialect';
import { runAsHandlingOf } from '../message/message-context';
import { isConnectionGone } from '../transaction/connection-check';
import { Cancellation } from '../transaction/cancellation';
import type { CutOff } from '../transaction/cut-off';
import { ShuttingDownError } from '../transaction/shutting-down.error';
import type { Transactions } from '../transaction/transactions';
import { messageContextOf, type TransactionalWork } from './delivery';
import { withInboxContext } from './inbox-context';
import type { InboxStore } from './inbox-store';
import { NackAnsweredError } from './nack-answered.error';
import { NotCountedError } from './not-counted.error';

/** How one try to handle a delivery in a transaction ended. Whatever it was, it left either all or nothing behind. */
export type Attempt =
  /** Committed. */
  | { readonly kind: 'handled'; readonly value: unknown }
  /** Rolled back, nothing was done: the message is settled already. */
  | { readonly kind: 'duplicate' }
  /** Rolled back, nothing was done: the table owns an open message with the same ordering key. */
  | { readonly kind: 'behind'; readonly error: Error }
  /** The message's own fault, or the handler's: rolled back. */
  | { readonly kind: 'failed'; readonly error: unknown }
  /** Serialization failure or deadlock: rolled back, and as good as never begun. */
  | { readonly kind: 'conflict'; readonly error: unknown }
  /** The database's fault, whoever ran into it. */
  | { readonly kind: 'database'; readonly error: unknown; readonly during: Step; readonly value?: unknown };

/** What was under way. The module's own statements are all but `handler`. */
export type Step = 'begin' | 'take' | 'handler' | 'commit';

/** Rolls the transaction back without a failure. */
class Duplicate extends Error {}

/** Rolls the transaction back: it is not the message's turn. */
class Behind extends Error {}

/** The connection is gone, whatever the handler has made of it. */
class ConnectionGone extends Error {
  constructor(override readonly cause: unknown) {
    super('The connection of the transaction is gone.');
  }
}

/**
 * One try, steps 2 to 4 of the protocol (see inbox-delivery.ts):
 *
 * 2. Begin, and *take* the row as the first statement. A concurrent copy waits here until the first one ends. A row that
 *    the table owns is taken under the token of its claim.
 * 3. Run the handler inside. What it answers with a `Nack` is not kept.
 * 4. Commit. That the transaction is still alive is checked by the transaction bridge.
 */
export class InboxTransaction {
  constructor(
    private readonly store: InboxStore,
    private readonly transactions: Transactions,
    private readonly dialect: Dialect,
    private readonly cutOff: CutOff,
  ) {}

  /** A transaction of the application is open around the delivery: it is joined in a savepoint. */
  get isJoined(): boolean {
    return this.transactions.active() !== undefined;
  }

  /** Nothing was wrong with the message: the database is away, or two transactions got into each other's way. */
  isTransient(error: unknown): boolean {
    return (
      error instanceof NotCountedError ||
      this.dialect.isConnectionFault(error) ||
      this.dialect.isRetryable(error)
    );
  }

  /** @param abort fires when a shutdown cannot wait any longer */
  async run(delivery: TransactionalWork, abort: AbortSignal): Promise<Attempt> {
    const { isolationLevel } = delivery.policy;
    const progress: { step: Step; value?: unknown } = { step: 'begin' };
    const work = async (manager: EntityManager) => {
      const runner = manager.queryRunner as QueryRunner;
      progress.step = 'take';
      const duplicate = await this.takeUnlessCut(delivery, runner, abort);
      if (delivery.orderingKey !== undefined) await this.assertNotBehind(delivery, runner);
      progress.step = 'handler';
      const value = await this.handle(delivery, runner, duplicate, abort);
      Object.assign(progress, { step: 'commit', value });
    };
    try {
      await this.transactions.run(work, isolationLevel ? { isolationLevel } : {});
      return { kind: 'handled', value: progress.value };
    } catch (error) {
      return this.judge(error, progress.step, progress.value);
    }
  }

  /** @returns whether it is a duplicate that is handled all the same */
  private async take(delivery: TransactionalWork, runner: QueryRunner): Promise<boolean> {
    const { key, policy, claim } = delivery;
    if (!key) return false;
    const goesOn = policy.onDuplicate === 'pass' || delivery.isJoining === true;
    const taken = claim
      ? this.store.takeKept(runner, key, claim.token)
      : this.store.take(runner, key, goesOn);
    if (await taken) return false;
    if (!claim && policy.onDuplicate === 'pass' && (await this.store.find(runner, key))?.status === 'done')
      return true;
    throw new Duplicate();
  }

  private async assertNotBehind(delivery: TransactionalWork, runner: QueryRunner): Promise<void> {
    const { key, orderingKey, claim } = delivery;
    if (!key || orderingKey === undefined || claim) return;
    if (await this.store.isKeyOpen(runner, key.consumer, orderingKey)) throw new Behind();
  }

  private async handle(
    delivery: TransactionalWork,
    runner: QueryRunner,
    duplicate: boolean,
    abort: AbortSignal,
  ): Promise<unknown> {
    const { policy, key, attempt } = delivery;
    const cancellation = new Cancellation();
    const context = {
      consumer: policy.consumer,
      messageId: key?.messageId,
      attempt,
      duplicate,
      get signal() {
        return cancellation.signal;
      },
    };
    try {
      const running = runAsHandlingOf(
        messageContextOf(delivery),
        () => delivery.handle(),
        withInboxContext(context),
      );
      const value = await this.cutOff.until(running, {
        runner,
        cancellation,
        abort,
        timeout: policy.timeout,
        handler: policy.consumer,
      });
      if (value instanceof Nack) throw new NackAnsweredError(policy.consumer, value.requeue);
      return value;
    } catch (error) {
      // Asked on the connection itself and not read from the error: the handler may have made its own error of it, and an
      // error that looks like it may be about another server that the handler talks to.
      if (!cancellation.aborted && (await isConnectionGone(runner, this.dialect)))
        throw new ConnectionGone(error);
      throw error;
    }
  }

  /** A concurrent copy can hold the row for long: a shutdown does not wait for it. */
  private takeUnlessCut(
    delivery: TransactionalWork,
    runner: QueryRunner,
    abort: AbortSignal,
  ): Promise<boolean> {
    return this.cutOff.until(this.take(delivery, runner), { runner, abort });
  }

  private judge(error: unknown, during: Step, value: unknown): Attempt {
    if (error instanceof Duplicate) return { kind: 'duplicate' };
    if (error instanceof Behind) return { kind: 'behind', error };
    if (error instanceof ShuttingDownError) throw error;
    if (error instanceof ConnectionGone) return { kind: 'database', error: error.cause, during };
    if (this.dialect.isRetryable(error)) return { kind: 'conflict', error };
    if (during === 'begin' || during === 'take') return { kind: 'database', error, during };
    if (during === 'commit' && this.dialect.isConnectionFault(error))
      return { kind: 'database', error, during, value };
    return { kind: 'failed', error };
  }
}
