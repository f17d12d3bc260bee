import type { AmqpMessage } from './amqp-message';
import type { ChannelFault } from './confirm-channel';

/** How long the broker's "no such exchange" is taken for an answer to other messages for the same exchange, in ms. */
const MISSING_EXCHANGE_HOLDS = 1_000;
/** Ids and exchanges remembered; the oldest are forgotten first, which costs no more than one closed channel each. */
const REMEMBERED = 10_000;

/**
 * Remembers what closed a channel, so that it closes no channel twice that others use: messages found guilty before, and
 * exchanges that were missing. Both are sent alone until they have gone through.
 */
export class Suspects {
  private readonly messageIds = new Map<string, true>();
  private readonly missing = new Map<string, { error: string; since: number }>();

  isSuspect({ messageId, exchange }: AmqpMessage): boolean {
    return this.messageIds.has(messageId) || this.missing.has(exchange);
  }

  /**
   * The broker's own answer where it said a moment ago that the exchange does not exist. Asking again for each of a
   * thousand messages would cost a channel each.
   */
  answerFor({ exchange }: AmqpMessage): string | undefined {
    const found = this.missing.get(exchange);
    return found && performance.now() - found.since < MISSING_EXCHANGE_HOLDS ? found.error : undefined;
  }

  /** For a message that was under way when the server closed a channel because of one of those under way. */
  judge(message: AmqpMessage, fault: ChannelFault): 'guilty' | 'innocent' | 'suspect' {
    const exchange = fault.code === 404 ? /no exchange '(.*)' in vhost/s.exec(fault.error)?.[1] : undefined;
    if (exchange === undefined) {
      remember(this.messageIds, message.messageId, true);
      return 'suspect';
    }
    if (exchange !== message.exchange) return 'innocent';
    this.convict(message, fault);
    return 'guilty';
  }

  /** Closed the channel when it was alone on it. */
  convict({ messageId, exchange }: AmqpMessage, fault: ChannelFault): void {
    remember(this.messageIds, messageId, true);
    if (fault.code === 404)
      remember(this.missing, exchange, { error: fault.error, since: performance.now() });
  }

  /** The broker has dealt with it and the channel lives on. */
  acquit({ messageId, exchange }: AmqpMessage): void {
    this.messageIds.delete(messageId);
    this.missing.delete(exchange);
  }
}

function remember<T>(map: Map<string, T>, key: string, value: T): void {
  map.delete(key);
  map.set(key, value);
  const oldest = map.size > REMEMBERED ? map.keys().next() : undefined;
  if (oldest && !oldest.done) map.delete(oldest.value);
}
