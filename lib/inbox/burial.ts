import { Logger } from '@nestjs/common';
import type { DeadLetterAlarm } from '../dead-letters/dead-letter-alarm';
import { ShuttingDownError } from '../transaction/shutting-down.error';
import { describe, keptMessage, type HandlerPolicy } from './delivery';
import { Hold } from './held-work';
import type { InboundMessage } from './inbound-message';
import type { InboxStore } from './inbox-store';
import { fingerprintOf, readMessageId } from './message-id';
import type { Pauses } from './pauses';
import { ack, requeue, type Settlement } from './settlement';

/** Keeps messages as dead that no handler can take or may be given, with their bytes and the reason, and has them acked. */
export class Burial {
  private readonly logger = new Logger('Inbox');

  constructor(
    private readonly store: Pick<InboxStore, 'bury'>,
    private readonly pauses: Pauses,
    private readonly alarm: Pick<DeadLetterAlarm, 'raise'>,
  ) {}

  /**
   * While the database is away the delivery is held. A message whose id is settled already is a duplicate, and its row stays
   * as it is.
   *
   * @param messageId under which it is kept. Default: its own, or a hash of its content where it has none
   * @returns what the broker is told
   */
  async settle(
    { consumer, messageId: read }: Pick<HandlerPolicy, 'consumer' | 'messageId'>,
    message: InboundMessage,
    reason: Error,
    messageId: string = idOf(message, read),
  ): Promise<Settlement> {
    const key = { consumer, messageId };
    const name = describe({ policy: { consumer }, key });
    try {
      const hold = new Hold(this.pauses, this.logger, () => `the ${name}`);
      const text = `${reason.name}: ${reason.message}`;
      if (await hold.insist(() => this.store.bury(keptMessage(key, message), () => text))) {
        this.logger.error(`The ${name} is dead, and kept in the inbox table. ${reason.message}`);
        const { exchange, routingKey } = message.fields;
        this.alarm.raise({
          box: 'inbox',
          ...key,
          exchange,
          routingKey,
          attempts: 1,
          error: text,
          cause: reason,
        });
      } else {
        this.logger.debug(`The ${name} is a duplicate of one that is settled: ${reason.message}`);
      }
      return ack();
    } catch (error) {
      if (!(error instanceof ShuttingDownError)) throw error;
      return requeue;
    }
  }
}

/** The body is of no use, but the id may be read from it. */
function idOf(message: InboundMessage, read: HandlerPolicy['messageId']): string {
  try {
    return readMessageId(message, read) ?? fingerprintOf(message);
  } catch {
    return fingerprintOf(message);
  }
}
