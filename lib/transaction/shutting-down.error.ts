/** The application stops. What is not finished is handed back. */
export class ShuttingDownError extends Error {
  override readonly name = 'ShuttingDownError';

  constructor() {
    super('The application shuts down; the message is handed back.');
  }
}
