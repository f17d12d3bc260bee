import type { HandlerPolicy } from './delivery';
import type { InboundMessage } from './inbound-message';

/** A handler as the processor sees it. */
export interface KeptHandler {
  /** Class and method. */
  readonly name: string;
  readonly policy: HandlerPolicy;
  /** Decodes a message's body as golevelup does. */
  readonly decode: (message: InboundMessage) => unknown;
  /** Runs the whole pipeline as golevelup does: guards, interceptors (ours among them), pipes, the handler, filters. */
  readonly invoke: (payload: unknown, message: InboundMessage) => Promise<unknown>;
}
