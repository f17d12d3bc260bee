import type { Inbox } from './inbox';
import type { KeptHandler } from './kept-handler';
import type { ReplyCodec } from './reply-codec';

/** An `@Idempotent()` handler that golevelup will call. */
export interface RegisteredHandler extends KeptHandler {
  readonly inbox: Inbox;
  /** See {@link liftProtectionCheck}; called when the pipelines have been built, which is known by the first delivery. */
  readonly restoreCheck: () => void;
  /** Of an RPC handler. */
  readonly replies: ReplyCodec | undefined;
}
