import type { Inbox } from './inbox';
import type { KeptHandler } from './kept-handler';

/** An `@Idempotent()` handler that golevelup will call. */
export interface RegisteredHandler extends KeptHandler {
  readonly inbox: Inbox;
}
