/** A handler took longer than its `timeout`; its transaction was rolled back, if it had one. */
export class HandlerTimeoutError extends Error {
  override readonly name = 'HandlerTimeoutError';

  /**
   * @param handler its name
   * @param timeout milliseconds
   */
  constructor(handler: string, timeout: number) {
    super(
      `${handler} took longer than its timeout of ${timeout} ms and was rolled back. It can end earlier when it passes ` +
        'the signal of its context on; what it does from here on in the database is refused.',
    );
  }
}
