import { type Duration, toMilliseconds } from './duration';

export interface HandlerUnavailableOptions extends ErrorOptions {
  /** Until when this process begins no other message of the handler. Default `'1s'`. */
  retryAfter?: Duration;
}

/**
 * Thrown by an `@OutboxHandler()` when no message of its kind can be handled at the moment, because something that it needs is
 * away (a mail server, another service): the message is given back, no attempt is used up, and this process begins no other
 * message of the handler before `retryAfter` has passed. For what is wrong with the message itself throw any other error:
 * with this one it would be tried for ever.
 */
export class HandlerUnavailableError extends Error {
  override readonly name: string = 'HandlerUnavailableError';
  /** Milliseconds. */
  readonly retryAfter: number;

  /** @throws {InvalidOptionError} for a `retryAfter` that is no duration */
  constructor(message: string, { retryAfter = '1s', ...options }: HandlerUnavailableOptions = {}) {
    super(message, options);
    this.retryAfter = toMilliseconds('retryAfter', retryAfter);
  }
}
