/** A handler took longer than its `timeout`; its transaction was rolled back. */
export class HandlerTimeoutError extends Error {
  override readonly name = 'HandlerTimeoutError';

  /**
   * @param consumer identity of the handler
   * @param timeout milliseconds
   */
  constructor(consumer: string, timeout: number) {
    super(
      `${consumer} took longer than its timeout of ${timeout} ms and was rolled back. It can end earlier when it passes ` +
        'inboxContext().signal on; what it does from here on in the database is refused.',
    );
  }
}
