import type { Inbox } from './inbox';
import type { KeptHandler } from './kept-handler';
import type { ReplyCodec } from './reply-codec';

/** An `@Idempotent()` handler that golevelup will call. */
export interface RegisteredHandler extends KeptHandler {
  readonly inbox: Inbox;
  /** Of an RPC handler. */
  readonly replies: ReplyCodec | undefined;
}
