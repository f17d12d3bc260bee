import type { OutboxHandlerContext } from './outbox-handler-context';
import type { ResolvedOutboxHandlerOptions } from './outbox-handler.options';

/** An `@OutboxHandler()` method of this process. */
export interface LocalHandler {
  /** As in `enqueue()`. */
  readonly name: string;
  /** Class and method, for messages. */
  readonly owner: string;
  readonly options: ResolvedOutboxHandlerOptions;
  /** Runs it with everything that Nest puts around it. Rejects when it has failed. */
  readonly handle: (payload: unknown, context: OutboxHandlerContext) => Promise<void>;
}
