import { ContextSlot } from '../../context/context-slot';
import type { ArgumentsHost } from '@nestjs/common';
import { runAsHandlingOf } from '../../message/message-context';

/** What an `@OutboxHandler()` method can know about the message that it handles. */
export interface OutboxHandlerContext {
  /** Name of the handler, as in `enqueue()`. */
  readonly handler: string;
  /** The same each time that the message is handled: what the far side can tell duplicates by. */
  readonly messageId: string;
  /** 1 for the first; runs that were cut off by a shutdown, a crash or a database that is away do not count. */
  readonly attempt: number;
  /** Of the conversation that the message belongs to, where it was enqueued by a handler of another message. */
  readonly correlationId: string | undefined;
  readonly orderingKey: string | undefined;
  /** When it was enqueued, on the database's clock. */
  readonly createdAt: Date;
  /** As given to `enqueue()`; empty for none. */
  readonly headers: Readonly<Record<string, unknown>>;
  /** Aborted when the handler's `timeout` is over, or a shutdown cannot wait any longer. */
  readonly signal: AbortSignal;
}

const CONTEXT_TYPE = 'outbox';

/** What `context.getType()` says in guards, interceptors and filters that run around an `@OutboxHandler()` method. */
export type OutboxContextType = typeof CONTEXT_TYPE;

export const OUTBOX_CONTEXT_TYPE: OutboxContextType = CONTEXT_TYPE;

/** For global guards, interceptors and filters, which run around `@OutboxHandler()` methods too. */
export function isOutboxContext(context: Pick<ArgumentsHost, 'getType'>): boolean {
  return context.getType<string>() === CONTEXT_TYPE;
}

const slot = new ContextSlot<OutboxHandlerContext>();

/** The message that is being handled by the calling code, or `undefined` outside of an `@OutboxHandler()` method. */
export function outboxContext(): OutboxHandlerContext | undefined {
  return slot.get();
}

/** Runs `work`, and everything that it starts, as the handling of a message: what it publishes tells where it comes from. */
export function runInOutboxContext<T>(context: OutboxHandlerContext, work: () => T): T {
  return runAsHandlingOf(context, work, slot.with(context));
}
