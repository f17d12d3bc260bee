import type { HandlerPolicy } from './delivery';
import type { Inbox } from './inbox';

/** An `@Idempotent()` handler that golevelup will call. */
export interface RegisteredHandler {
  /** Class and method. */
  readonly name: string;
  readonly inbox: Inbox;
  readonly policy: HandlerPolicy;
}
