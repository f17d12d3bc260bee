import { NonRetryableError } from './non-retryable.error';

/** A stored message cannot be read: its row was changed by hand, or written by something else. It is dead at once. */
export class DamagedMessageError extends NonRetryableError {
  override readonly name = 'DamagedMessageError';

  /**
   * @param column what cannot be read
   * @param reason as a sentence without its full stop
   */
  constructor(
    readonly column: string,
    reason: string,
    options?: ErrorOptions,
  ) {
    super(`The column "${column}" cannot be read: ${reason}. Correct it, then replay the message.`, options);
  }
}
