import { Logger } from '@nestjs/common';
import type { ConcurrencyGate } from '../transaction/concurrency-gate';
import { describe, type TransactionalWork } from './delivery';
import { Hold } from './held-work';
import type { Attempt, InboxTransaction } from './inbox-transaction';
import type { Pauses } from './pauses';

/** Reruns at once after serialization failures and deadlocks, uncounted. */
const MAX_CONFLICTS = 5;

/** A handler under which the connection dies this often in a row is what kills it. */
const MAX_LOST_CONNECTIONS = 5;

export interface HandlingParts {
  readonly transaction: InboxTransaction;
  readonly gate: ConcurrencyGate;
  readonly pauses: Pauses;
}

/** How the handling of a message ended, once the database was there and nobody got in its way. */
export type Outcome =
  | { readonly kind: 'handled'; readonly value: unknown; readonly provisional?: true }
  /** It is settled already; of a message that was claimed: it is not ours any more. */
  | { readonly kind: 'duplicate' }
  /** The table owns an open one with the same ordering key. */
  | { readonly kind: 'behind' }
  /** `blameless`: not known to be the message's own fault, since it was tried only once. */
  | { readonly kind: 'failed'; readonly error: unknown; readonly blameless?: true };

/** Steps 2 to 4 of the protocol (see inbox-delivery.ts), as often as it takes. */
export class Handling {
  private readonly logger = new Logger('Inbox');

  constructor(private readonly parts: HandlingParts) {}

  /**
   * In a transaction of its own. Serialization failures and deadlocks run it again at once; while the database is away it
   * waits.
   *
   * @param abort fires when a shutdown cannot wait any longer
   * @throws {ShuttingDownError} when the application stops before there is an outcome
   */
  async run(delivery: TransactionalWork, abort: AbortSignal): Promise<Outcome> {
    const { transaction, gate, pauses } = this.parts;
    let hold: Hold | undefined;
    let conflicts = 0;
    let lost = 0;
    let uncertain: Extract<Attempt, { kind: 'database' }> | undefined;
    for (;;) {
      pauses.assertRunning();
      // What waits for its place when the application stops goes back at once, and not when another handler has ended.
      const leave = gate.tryEnter() ?? (await gate.enter(pauses.stopping));
      let attempt: Attempt;
      try {
        if (delivery.claim) await delivery.claim.leave();
        attempt = await transaction.run(uncertain ? skippingDuplicates(delivery) : delivery, abort);
      } finally {
        leave();
      }
      switch (attempt.kind) {
        case 'handled':
        case 'behind':
        case 'failed':
          return attempt;
        case 'duplicate':
          // The commit whose answer was lost has taken place after all. Of a message that was claimed that is not known.
          return uncertain && !delivery.claim ? { kind: 'handled', value: uncertain.value } : attempt;
        case 'conflict':
          conflicts += 1;
          if (conflicts > MAX_CONFLICTS) return { kind: 'failed', error: attempt.error };
          await pauses.wait(Math.random() * 10 * 2 ** conflicts);
          break;
        case 'database':
          if (attempt.during === 'commit') uncertain = attempt;
          if (attempt.during === 'handler') lost += 1;
          if (lost > MAX_LOST_CONNECTIONS) return { kind: 'failed', error: attempt.error };
          hold ??= new Hold(pauses, this.logger, () => `the ${describe(delivery)}`);
          await hold.wait(attempt.error);
      }
    }
  }

  /** A transaction of the application is open around the delivery. */
  get isJoined(): boolean {
    return this.parts.transaction.isJoined;
  }

  /**
   * Once, in a savepoint of the application's transaction. Whoever gets a failure has to throw it, so that the application's
   * transaction can roll back too.
   */
  async join(delivery: TransactionalWork, abort: AbortSignal): Promise<Outcome> {
    await delivery.claim?.leave();
    const attempt = await this.parts.transaction.run({ ...delivery, isJoining: true }, abort);
    switch (attempt.kind) {
      case 'handled':
        return { ...attempt, provisional: true };
      case 'conflict':
      case 'database':
        return { kind: 'failed', error: attempt.error, blameless: true };
      default:
        return attempt;
    }
  }
}

/** What is done then was done by this very delivery, so `pass` is not meant. */
function skippingDuplicates(delivery: TransactionalWork): TransactionalWork {
  return { ...delivery, policy: { ...delivery.policy, onDuplicate: 'skip' } };
}
