import { Logger } from '@nestjs/common';
import type { InboxKey } from '../persistence/inbox-message';
import type { Transactions } from '../transaction/transactions';
import type { Burial } from './burial';
import { conflictingId, contentHash } from './content-hash';
import type { Delivery, HandlerPolicy } from './delivery';
import { FingerprintConflictError } from './fingerprint-conflict.error';
import type { FingerprintStore } from './fingerprint-store';
import type { InboundMessage } from './inbound-message';
import { inboxContext } from './inbox-context';
import { keptIdOf } from './message-id';
import type { OnRepeatedContent } from '../message/repeated-content';
import { errorReply } from './rpc-error-reply';
import { ack, type Settlement } from './settlement';

export interface FingerprintParts {
  readonly store: FingerprintStore;
  readonly transactions: Transactions;
  readonly burial: Burial;
  readonly onRepeatedContent: OnRepeatedContent | undefined;
}

/**
 * For handlers with the option `fingerprint`. A hash of the content stands in the row of each message that is handled:
 *
 * 1. It is written in the handler's transaction. Another row has the same: the publisher has repeated the message under a new
 *    id, which is reported once the transaction has committed.
 * 2. A duplicate whose content is another one is no duplicate, and the row of the first is not its to change. It is kept as
 *    dead under an id made of both, and acked.
 */
export class Fingerprints {
  private readonly logger = new Logger('Inbox');

  constructor(private readonly parts: FingerprintParts) {}

  /** Around everything else that settles a delivery. */
  settle(delivery: Delivery, inner: (delivery: Delivery) => Promise<Settlement>): Promise<Settlement> {
    return delivery.policy.fingerprint ? this.settleNoting(delivery, inner) : inner(delivery);
  }

  private async settleNoting(
    delivery: Delivery,
    inner: (delivery: Delivery) => Promise<Settlement>,
  ): Promise<Settlement> {
    const { policy, message } = delivery;
    let ran = false;
    const handle = async () => {
      const value = await this.noting(policy, message, delivery.handle)();
      ran = true;
      return value;
    };
    const settlement = await inner({ ...delivery, handle });
    if (settlement.kind !== 'ack' || ran) return settlement;
    const id = keptIdOf(message, policy);
    return (id !== undefined && (await this.settleConflict(policy, message, id))) || settlement;
  }

  /** What a handler is called through, for a message that is handled at last. */
  noting(
    policy: HandlerPolicy,
    message: InboundMessage,
    handle: () => Promise<unknown>,
  ): () => Promise<unknown> {
    return async () => {
      const context = inboxContext();
      if (policy.fingerprint && context?.messageId !== undefined) {
        const key = { consumer: context.consumer, messageId: context.messageId };
        const hash = hashOf(policy, message);
        if (!context.duplicate) await this.note(key, hash);
        else if (await this.isOther(key, hash, policy.fingerprint === true)) {
          throw new FingerprintConflictError(key.consumer, key.messageId);
        }
      }
      return handle();
    };
  }

  /** Step 1, in the active transaction. */
  async note(key: InboxKey, hash: string): Promise<void> {
    const previousMessageId = await this.parts.store.note(key, hash);
    if (previousMessageId === undefined) return;
    this.parts.transactions.afterCommit(() => this.report({ ...key, previousMessageId }));
  }

  async noteMessage(policy: HandlerPolicy, message: InboundMessage, messageId: string): Promise<void> {
    if (policy.fingerprint)
      await this.note({ consumer: policy.consumer, messageId }, hashOf(policy, message));
  }

  /** Step 2. @returns `undefined` for what is a duplicate indeed */
  async settleConflict(
    policy: HandlerPolicy,
    message: InboundMessage,
    messageId: string,
  ): Promise<Settlement | undefined> {
    if (!policy.fingerprint) return undefined;
    const { consumer } = policy;
    const hash = hashOf(policy, message);
    if (!(await this.isOther({ consumer, messageId }, hash, policy.fingerprint === true))) return undefined;
    const error = new FingerprintConflictError(consumer, messageId);
    if (policy.onFailure === 'reply') {
      this.logger.error(error.message);
      return ack(errorReply(error, policy.errorReply));
    }
    return this.parts.burial.settle(policy, message, error, conflictingId(messageId, hash));
  }

  /** @param isBody the hash is that of a body as it is */
  async isOther(key: InboxKey, hash: string, isBody: boolean): Promise<boolean> {
    const known = await this.parts.store.find(key, isBody);
    return known !== undefined && known !== hash;
  }

  private async report(event: Parameters<OnRepeatedContent>[0]): Promise<void> {
    const { consumer, messageId, previousMessageId } = event;
    this.logger.warn(
      `Message ${JSON.stringify(messageId)} for ${consumer} has the same content as ${JSON.stringify(previousMessageId)}, ` +
        'which was handled before, and another id. Does the publisher make a new id when it repeats a message?',
    );
    await this.parts.onRepeatedContent?.(event);
  }
}

function hashOf({ fingerprint }: HandlerPolicy, message: InboundMessage): string {
  return contentHash(typeof fingerprint === 'function' ? fingerprint(message) : message.content);
}
