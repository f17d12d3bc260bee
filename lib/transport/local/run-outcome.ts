import type { HandlerUnavailableError } from '../../message/handler-unavailable.error';
import type { ClaimedMessage } from '../../persistence/outbox-statements';
import type { LocalHandler } from './local-handler';

/** How one run of a local handler ended. */
export type RunOutcome =
  /** It returned. In a transaction: that is committed, and the message settled with it. */
  | { readonly kind: 'done' }
  /** The message has a new owner or is gone, which was seen before anything was done. */
  | { readonly kind: 'lost' }
  /** The handler's fault or the message's: counts as an attempt. */
  | { readonly kind: 'failed'; readonly error: unknown; readonly permanent?: true }
  /** What the handler needs is away: no attempt used, and no other message of this handler is begun for a while. */
  | { readonly kind: 'unavailable'; readonly error: HandlerUnavailableError }
  /** The database was away, or the application stops: no attempt used. `during`: whether the handler was running. */
  | {
      readonly kind: 'interrupted';
      readonly reason: 'database' | 'shutdown';
      readonly error: unknown;
      readonly during?: 'handler';
    };

export interface RunTerms {
  readonly handler: LocalHandler;
  readonly message: ClaimedMessage;
  /** Of the claim that the message belongs to. */
  readonly token: string;
  /** Fires when a shutdown cannot wait any longer. */
  readonly abort: AbortSignal;
}

/** One way to run handlers. Never rejects. */
export interface HandlerRuns {
  run(terms: RunTerms): Promise<RunOutcome>;
}
