import { Nack } from '@golevelup/nestjs-rabbitmq';
import type { Delivery } from './delivery';
import type { InboxDelivery } from './inbox-delivery';
import { inboxContext } from './inbox-context';
import { fingerprintOf, readMessageId } from './message-id';
import { MissingMessageIdError } from './missing-message-id.error';
import type { ReplyCodec } from './reply-codec';
import type { ReplyStore } from './reply-store';
import { errorReply } from './rpc-error-reply';
import { ack, type Settlement } from './settlement';

/**
 * A request and its reply:
 *
 * 1. A request whose id is missing or cannot be kept is answered with the error; unless the policy is `reply`, it is kept as dead
 *    too, as any message is.
 * 2. The handler's reply is written into the message's row, as the last statement of its transaction.
 * 3. A duplicate is answered with what stands there.
 * 4. A failed one is answered with the error (`onFailure: 'reply'`), and no row stays.
 */
export class RpcDelivery {
  constructor(
    private readonly deliveries: Pick<InboxDelivery, 'settle'>,
    private readonly replies: ReplyStore,
  ) {}

  async settle(delivery: Delivery, codec: ReplyCodec, abort: AbortSignal): Promise<Settlement> {
    const { policy } = delivery;
    const id = idOf(delivery);
    if (id.error && policy.onFailure === 'reply') return ack(errorReply(id.error, policy.errorReply));
    const handle = async () => {
      const reply = await delivery.handle();
      await this.keep(reply, codec);
      return reply;
    };
    const settlement = await this.deliveries.settle({ ...delivery, handle }, abort);
    if (settlement.kind === 'ack' && id.error) return ack(errorReply(id.error, policy.errorReply));
    if (settlement.kind !== 'ack' || settlement.value !== undefined || id.value === undefined)
      return settlement;
    // A duplicate, or a handler that has returned nothing: the row knows.
    const found = await this.replies.find({ consumer: policy.consumer, messageId: id.value });
    if (found?.status === 'dead') {
      const reason = new Error(
        `The request is given up: ${found.last_error?.split('\n')[0] ?? 'it failed too often'}`,
      );
      return ack(errorReply(reason, policy.errorReply));
    }
    return found?.reply ? { ...settlement, value: codec.decode(found.reply) } : settlement;
  }

  private async keep(reply: unknown, codec: ReplyCodec): Promise<void> {
    const context = inboxContext();
    // Without an id there is no row, and the reply to a duplicate that is passed on is not the first one.
    if (reply instanceof Nack || context?.messageId === undefined || context.duplicate) return;
    await this.replies.keep(
      { consumer: context.consumer, messageId: context.messageId },
      codec.encode(reply),
    );
  }
}

interface FoundId {
  readonly value?: string;
  readonly error?: Error;
}

function idOf({ policy, message }: Delivery): FoundId {
  try {
    const value = readMessageId(message, policy.messageId);
    if (value !== undefined) return { value };
    if (policy.onMissingId === 'fingerprint') return { value: fingerprintOf(message) };
    return policy.onMissingId === 'reject' ? { error: new MissingMessageIdError(policy.consumer) } : {};
  } catch (error) {
    return { error: error as Error };
  }
}
