/** The application stops. What is not finished goes back to the broker. */
export class ShuttingDownError extends Error {
  override readonly name = 'ShuttingDownError';

  constructor() {
    super('The application shuts down; the message goes back to its queue.');
  }
}
