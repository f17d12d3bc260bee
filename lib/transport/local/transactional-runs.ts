import { setTimeout as delay } from 'node:timers/promises';
import type { EntityManager, QueryRunner } from 'typeorm';
import type { Dialect } from '../../persistence/dialect';
import { HandlerUnavailableError } from '../../message/handler-unavailable.error';
import { isConnectionGone } from '../../transaction/connection-check';
import { Cancellation } from '../../transaction/cancellation';
import type { CutOff } from '../../transaction/cut-off';
import { ShuttingDownError } from '../../transaction/shutting-down.error';
import type { Transactions } from '../../transaction/transactions';
import { decodeLocalMessage } from './local-message';
import { runInOutboxContext } from './outbox-handler-context';
import type { HandlerRuns, RunOutcome, RunTerms } from './run-outcome';
import { thrownText } from '../../message/thrown-text';

/** Reruns at once after serialization failures and deadlocks, uncounted. */
const MAX_CONFLICTS = 5;

export interface TransactionalRunsDependencies {
  readonly transactions: Transactions;
  readonly dialect: Pick<Dialect, 'outbox' | 'isRetryable' | 'isConnectionFault'>;
  readonly cutOff: CutOff;
  /** Whether handled messages are kept. */
  readonly keepSent: boolean;
}

/** What was under way. The module's own statements are all but `handler`. */
type Step = 'begin' | 'settle' | 'handler' | 'commit';

type Attempt = RunOutcome | { readonly kind: 'conflict'; readonly error: unknown };

/** Rolls the transaction back without a failure. */
class Lost extends Error {}

/** Rolls the transaction back; the row cannot be read. */
class Unreadable extends Error {}

/** The connection is gone, whatever the handler has made of it. */
class ConnectionGone extends Error {}

/**
 * A handler in a transaction, so that what it writes takes effect exactly once:
 *
 * 1. Begin. The *first* statement settles the message under the claim's token, as sent. No row: it belongs to somebody else
 *    by now, or is gone; rollback, and the handler does not run.
 * 2. From here on the row's lock is the lease, however long the handler takes: nobody else can claim or settle the row.
 *    Nothing renews the claim, which would have to wait for that lock.
 * 3. Run the handler inside, until its timeout or a shutdown cuts it off.
 * 4. Commit, after the check that the transaction is still alive, which the transaction bridge makes.
 * 5. Anything else: rollback, and the row is as it was after the claim. Serialization failures and deadlocks begin again with
 *    1. at once, uncounted.
 */
export class TransactionalRuns implements HandlerRuns {
  constructor(private readonly use: TransactionalRunsDependencies) {}

  async run(terms: RunTerms): Promise<RunOutcome> {
    for (let conflicts = 1; ; conflicts++) {
      const attempt = await this.attempt(terms);
      if (attempt.kind !== 'conflict') return attempt;
      if (conflicts > MAX_CONFLICTS) return { kind: 'failed', error: attempt.error };
      await delay(Math.random() * 10 * 2 ** conflicts);
      if (terms.abort.aborted)
        return { kind: 'interrupted', reason: 'shutdown', error: new ShuttingDownError() };
    }
  }

  private async attempt(terms: RunTerms): Promise<Attempt> {
    const { isolationLevel } = terms.handler.options;
    const progress: { step: Step } = { step: 'begin' };
    const work = async (manager: EntityManager) => {
      const runner = manager.queryRunner as QueryRunner;
      progress.step = 'settle';
      if (!(await this.settle(runner, terms))) throw new Lost();
      progress.step = 'handler';
      await this.handle(runner, terms);
      progress.step = 'commit';
    };
    try {
      await this.use.transactions.run(work, isolationLevel ? { isolationLevel } : {});
      return { kind: 'done' };
    } catch (error) {
      return this.judge(error, progress.step);
    }
  }

  /** Somebody can hold the row, who is cancelling it for example: a shutdown does not wait for that. */
  private async settle(runner: QueryRunner, { message, token, abort }: RunTerms): Promise<boolean> {
    const { dialect, cutOff, keepSent } = this.use;
    const settlement = { token, sent: [message.seq], failed: [], released: [], keepSent };
    const settling = dialect.outbox.settle(runner, settlement);
    const { settled } = await cutOff.until(settling, { runner, abort });
    return settled > 0;
  }

  private async handle(runner: QueryRunner, { handler, message, abort }: RunTerms): Promise<void> {
    const { cutOff, dialect } = this.use;
    const cancellation = new Cancellation();
    const { payload, context } = readable(() => decodeLocalMessage(message, cancellation.signal));
    const { timeout } = handler.options;
    try {
      const running = runInOutboxContext(context, () => handler.handle(payload, context));
      await cutOff.until(running, { runner, cancellation, abort, timeout, handler: handler.name });
    } catch (error) {
      // Asked on the connection itself and not read from the error, of which the handler may have made its own.
      if (!cancellation.aborted && (await isConnectionGone(runner, dialect)))
        throw new ConnectionGone(thrownText(error), { cause: error });
      throw error;
    }
  }

  private judge(error: unknown, during: Step): Attempt {
    const { dialect } = this.use;
    if (error instanceof Lost) return { kind: 'lost' };
    if (error instanceof Unreadable) return { kind: 'failed', error: error.cause, permanent: true };
    if (error instanceof ShuttingDownError) return { kind: 'interrupted', reason: 'shutdown', error };
    if (error instanceof ConnectionGone)
      return { kind: 'interrupted', reason: 'database', error: error.cause, during: 'handler' };
    if (error instanceof HandlerUnavailableError) return { kind: 'unavailable', error };
    if (dialect.isRetryable(error)) return { kind: 'conflict', error };
    // A commit whose answer was lost: the row tells whether it took place. It is gone then, or claimed again later.
    const isDatabase = during === 'commit' ? dialect.isConnectionFault(error) : during !== 'handler';
    if (isDatabase) return { kind: 'interrupted', reason: 'database', error };
    return { kind: 'failed', error };
  }
}

function readable<T>(decode: () => T): T {
  try {
    return decode();
  } catch (cause) {
    throw new Unreadable('The row cannot be read', { cause });
  }
}
