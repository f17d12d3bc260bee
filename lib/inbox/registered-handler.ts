import type { HandlerPolicy } from './delivery';
import type { InboundMessage } from './inbound-message';
import type { Inbox } from './inbox';

/** An `@Idempotent()` handler that golevelup will call. */
export interface RegisteredHandler {
  /** Class and method. */
  readonly name: string;
  readonly inbox: Inbox;
  readonly policy: HandlerPolicy;
  /** Decodes a message's body as golevelup does. */
  readonly decode: (message: InboundMessage) => unknown;
}
