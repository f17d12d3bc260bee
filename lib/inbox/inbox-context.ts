import { ContextSlot, type SlotValue } from '../context/context-slot';

/** What a handler can know about the delivery that it is handling. */
export interface InboxContext {
  /** The handler's identity in the inbox table. */
  readonly consumer: string;
  /** `undefined` only with `onMissingId: 'process'`, and in a batch of several. */
  readonly messageId: string | undefined;
  /** Of a batch handler only: the ids of its messages, in step with payloads, raw messages and headers. */
  readonly messageIds?: readonly (string | undefined)[];
  /**
   * Which attempt this is, as far as it is known: 1 for a first delivery, at least 2 for one that was delivered or tried
   * before. An attempt that died with its process may not have been counted.
   */
  readonly attempt: number;
  /** The message has been handled before; only with `onDuplicate: 'pass'`. */
  readonly duplicate: boolean;
  /** Aborted when the handler's `timeout` is over, or a shutdown cannot wait any longer. Its transaction is rolled back. */
  readonly signal: AbortSignal;
}

const slot = new ContextSlot<InboxContext>();

/** The delivery that is being handled by the calling code, or `undefined` outside of an `@Idempotent()` handler. */
export function inboxContext(): InboxContext | undefined {
  return slot.get();
}

/** To run something with. */
export function withInboxContext(context: InboxContext): SlotValue {
  return slot.with(context);
}

/** Runs `work`, and everything that it starts, as the handling of a delivery. */
export function runInInboxContext<T>(context: InboxContext, work: () => T): T {
  return slot.run(context, work);
}
