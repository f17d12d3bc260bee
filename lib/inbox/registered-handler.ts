import type { Inbox } from './inbox';
import type { KeptHandler } from './kept-handler';
import type { ReplyCodec } from './reply-codec';

/** An `@Idempotent()` handler that golevelup will call. */
export interface RegisteredHandler extends KeptHandler {
  readonly inbox: Inbox;
  /**
   * See {@link liftProtectionCheck}. To be called with each delivery: then golevelup's pipeline has been built, and ours for kept
   * messages is built by it.
   */
  readonly restoreCheck: () => void;
  /** Of an RPC handler. */
  readonly replies: ReplyCodec | undefined;
}
