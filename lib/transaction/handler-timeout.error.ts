const CONSEQUENCES = {
  'rolled back':
    'was rolled back. It can end earlier when it passes the signal of its context on; what it does from here on in the ' +
    'database is refused',
  aborted: 'did not end well after the signal of its context was aborted',
};

/** A handler took longer than its `timeout`. */
export class HandlerTimeoutError extends Error {
  override readonly name = 'HandlerTimeoutError';

  /**
   * @param handler its name
   * @param timeout milliseconds
   * @param consequence whether its transaction was rolled back, or there was none
   */
  constructor(handler: string, timeout: number, consequence: keyof typeof CONSEQUENCES = 'rolled back') {
    super(`${handler} took longer than its timeout of ${timeout} ms and ${CONSEQUENCES[consequence]}.`);
  }
}
