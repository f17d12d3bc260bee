/**
 * Thrown where another attempt cannot end otherwise (an address that does not exist, an order that was cancelled): the
 * message is dead at once, with this error, whatever its retry policy says. A subclass does the same.
 */
export class NonRetryableError extends Error {
  override readonly name: string = 'NonRetryableError';

  /** @param options `cause`: what was caught, to be read beside the message */
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
  }
}
