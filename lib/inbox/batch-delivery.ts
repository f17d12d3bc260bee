import { Logger } from '@nestjs/common';
import { ShuttingDownError } from '../transaction/shutting-down.error';
import type { BatchStore } from './batch-store';
import type { Burial } from './burial';
import type { HandlerPolicy } from './delivery';
import type { Fingerprints } from './fingerprints';
import type { Handling } from './handling';
import type { InboundMessage } from './inbound-message';
import { inboxContext, runInInboxContext, type InboxContext } from './inbox-context';
import type { InboxDelivery } from './inbox-delivery';
import { keptIdOf } from './message-id';
import type { Pauses } from './pauses';
import { ack, requeue, type Settlement } from './settlement';
import type { UndecodableBodies } from './undecodable-bodies';
import { thrownMessage } from '../message/thrown-text';

/** What golevelup has collected for one batch handler. */
export interface Batch {
  readonly policy: HandlerPolicy;
  readonly messages: readonly InboundMessage[];
  readonly decode: (message: InboundMessage) => unknown;
  /** Runs everything inside of the interceptor with these messages. May be called more than once. */
  readonly handle: (indices: readonly number[]) => Promise<unknown>;
}

export interface BatchDeliveryParts {
  readonly store: BatchStore;
  readonly deliveries: Pick<InboxDelivery, 'settle'>;
  readonly handling: Handling;
  readonly burial: Burial;
  readonly fingerprints: Fingerprints;
  /** Called for duplicates. */
  readonly onDuplicate: () => void;
  readonly undecodable: UndecodableBodies;
  readonly pauses: Pauses;
}

/** A message of the batch that is taken together with others. */
interface Fresh {
  readonly index: number;
  readonly id: string;
}

/**
 * One batch, from its arrival to the answer for each of its messages:
 *
 * 1. Set apart what cannot be handled together with others: a body that cannot be decoded; a message without an id that one
 *    can keep; a redelivered one, which may be what killed the process and has to pass the suspects' lane.
 * 2. Begin; *take* all others in one statement. Copies, in the batch too, are not ours: they are only acked.
 * 3. Run the handler once with what is ours, commit. With nothing ours it is not called.
 * 4. Failed: rolled back, and each of its messages is handled on its own, as if it had come alone. One that cannot be handled
 *    does not hold the others.
 * 5. What was set apart comes last, each on its own.
 */
export class BatchDelivery {
  private readonly logger = new Logger('Inbox');

  constructor(private readonly parts: BatchDeliveryParts) {}

  /**
   * @param abort fires when a shutdown cannot wait any longer
   * @returns in step with the messages
   * @throws the failure, inside a transaction of the application, which has to roll back
   */
  async settle(batch: Batch, abort: AbortSignal): Promise<Settlement[]> {
    const settlements = new Map<number, Settlement>();
    const { fresh, apart } = this.divide(batch);
    if (fresh.length > 1 && !this.parts.pauses.isStopping) {
      for (const [index, settlement] of await this.together(batch, fresh, abort)) {
        settlements.set(index, settlement);
      }
    }
    const left = [...fresh.map(({ index }) => index), ...apart].filter((index) => !settlements.has(index));
    for (const index of left) settlements.set(index, await this.alone(batch, index, abort));
    return batch.messages.map((_, index) => settlements.get(index) as Settlement);
  }

  private divide(batch: Batch): { fresh: Fresh[]; apart: number[] } {
    const fresh: Fresh[] = [];
    const apart: number[] = [];
    for (const [index, message] of batch.messages.entries()) {
      const isApart = this.parts.undecodable.of(message) !== undefined || message.fields.redelivered;
      const id = isApart ? undefined : keptIdOf(message, batch.policy);
      if (id === undefined) apart.push(index);
      else fresh.push({ index, id });
    }
    return { fresh, apart };
  }

  /** Steps 2 and 3. @returns nothing where it has failed */
  private async together(
    batch: Batch,
    fresh: readonly Fresh[],
    abort: AbortSignal,
  ): Promise<Map<number, Settlement>> {
    const { handling } = this.parts;
    const { isJoined } = handling;
    const all = (settlement: Settlement) =>
      new Map<number, Settlement>(fresh.map(({ index }) => [index, settlement]));
    const work = {
      policy: batch.policy,
      key: undefined,
      attempt: 1,
      handle: () => this.handleOurs(batch, fresh, (left) => (duplicates = left)),
    };
    let duplicates: readonly Fresh[] = [];
    try {
      const outcome = await (isJoined ? handling.join(work, abort) : handling.run(work, abort));
      if (outcome.kind === 'handled') {
        const settlements = all(isJoined ? { kind: 'ack', value: undefined, provisional: true } : ack());
        for (const { index, id } of duplicates) {
          const message = batch.messages[index] as InboundMessage;
          const conflict = await this.parts.fingerprints.settleConflict(batch.policy, message, id);
          if (conflict) settlements.set(index, conflict);
        }
        if (duplicates.length > 0) this.parts.onDuplicate();
        return settlements;
      }
      const error = outcome.kind === 'failed' ? outcome.error : new Error(`Unexpected: ${outcome.kind}`);
      if (isJoined) throw error;
      this.logger.warn(
        `A batch of ${fresh.length} messages for ${batch.policy.consumer} failed and was rolled back; each of them is handled ` +
          `on its own: ${thrownMessage(error)}`,
      );
      return new Map();
    } catch (error) {
      if (!(error instanceof ShuttingDownError)) throw error;
      return all(requeue);
    }
  }

  /** @param skip is told what is not ours */
  private async handleOurs(
    batch: Batch,
    fresh: readonly Fresh[],
    skip: (duplicates: readonly Fresh[]) => void,
  ): Promise<unknown> {
    const { consumer } = batch.policy;
    const taken = await this.parts.store.take(
      consumer,
      fresh.map(({ id }) => id),
    );
    // The first of copies in one batch is ours: taking it out of the set leaves the others as duplicates.
    const ours = fresh.filter(({ id }) => taken.delete(id));
    const isOurs = new Set(ours);
    const duplicates = fresh.filter((each) => !isOurs.has(each));
    skip(duplicates);
    this.logger.debug(`${duplicates.length} of ${fresh.length} messages for ${consumer} are duplicates.`);
    for (const { index, id } of ours) {
      await this.parts.fingerprints.noteMessage(batch.policy, batch.messages[index] as InboundMessage, id);
    }
    if (ours.length === 0) return undefined;
    const context = { ...(inboxContext() as InboxContext), messageIds: ours.map(({ id }) => id) };
    return runInInboxContext(context, () => batch.handle(ours.map(({ index }) => index)));
  }

  private alone(batch: Batch, index: number, abort: AbortSignal): Promise<Settlement> {
    const { policy } = batch;
    const message = batch.messages[index] as InboundMessage;
    const undecodable = this.parts.undecodable.of(message);
    if (undecodable) return this.parts.burial.settle(policy, message, undecodable);
    const handle = () => {
      const context = inboxContext() as InboxContext;
      return runInInboxContext({ ...context, messageIds: [context.messageId] }, () => batch.handle([index]));
    };
    const delivery = { policy, message, payload: () => batch.decode(message), handle };
    return this.parts.fingerprints.settle(delivery, (each) => this.parts.deliveries.settle(each, abort));
  }
}
