import type { ClaimedMessage } from '../persistence/outbox-statements';

/** How the attempt to send one message ended. */
export type SendOutcome =
  /** The broker has taken responsibility for it: a positive confirm, and not returned as unroutable. */
  | { readonly kind: 'sent' }
  /** The message's own fault (unroutable, refused, cannot be encoded): counts as an attempt. */
  | {
      readonly kind: 'failed';
      /** For the row and the log. */
      readonly error: string;
      /** What was thrown, where something was: the retry policy judges by it. */
      readonly cause?: unknown;
      /** Another attempt would end the same way: the message is dead at once. */
      readonly permanent?: true;
    }
  /** It was written, and nobody knows whether it arrived: no attempt used, sent again with the same id. */
  | {
      readonly kind: 'unknown';
      readonly error: string;
      /** The connection lives, but the broker did not answer in time: this message is better left alone for a while. */
      readonly unanswered?: true;
    }
  /** Nothing was written: no attempt used. */
  | { readonly kind: 'unsent'; readonly error: string };

export interface SendLimits {
  /** Milliseconds to wait for the broker's answer, counted from the moment the message is written. */
  readonly timeout: number;
  /** Asked right before the message is written: while it waited for its turn, the lease may have ended. */
  mayStart(): boolean;
}

/** `disconnected`: no connection. `blocked`: the broker has an alarm (memory, disk) and reads nothing from publishers. */
export type Availability =
  { readonly available: true } | { readonly available: false; readonly reason: 'disconnected' | 'blocked' };

/** What the dispatcher needs from a way to send messages. */
export interface Transport {
  /** Whether sending makes sense now. Costs nothing: asked before each claim. */
  availability(): Availability;

  /** Calls the listener each time that sending has become possible again. @returns a function that ends it */
  onAvailable(listener: () => void): () => void;

  /**
   * Sends one message. Any number may be under way at once; the message id tells them apart, so the same id never is
   * under way twice. Never rejects.
   */
  send(message: ClaimedMessage, limits: SendLimits): Promise<SendOutcome>;

  /** What is still under way ends as `unknown`. May be called twice; never rejects. */
  close(): Promise<void>;
}
