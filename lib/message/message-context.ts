import { ContextSlot, runWith, type SlotValue } from '../context/context-slot';

/**
 * The message that the running code handles, as far as what it publishes is concerned. Set around every handler that is
 * run for a message: `@Idempotent()` methods (inbox) and local handlers of the outbox.
 */
export interface MessageContext {
  /** `undefined` for a message without an id. */
  readonly messageId: string | undefined;
  /** `undefined` where the message has none. */
  readonly correlationId: string | undefined;
  /** The message's headers, as they came. */
  readonly headers: Readonly<Record<string, unknown>>;
}

const slot = new ContextSlot<MessageContext>();

/** The message that is being handled by the calling code, or `undefined` outside of a handler. */
export function currentMessage(): MessageContext | undefined {
  return slot.get();
}

/**
 * Runs `work`, and everything that it starts, as the handling of a message.
 *
 * @param also what else it is to know
 */
export function runAsHandlingOf<T>(message: MessageContext, work: () => T, also?: SlotValue): T {
  const value = slot.with(message);
  return runWith(also ? [value, also] : [value], work);
}
