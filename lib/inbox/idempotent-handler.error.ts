export type IdempotentHandlerProblem =
  | 'batch'
  | 'controller-discovery'
  | 'data-source'
  | 'direct-reply-to'
  | 'duplicate-identity'
  | 'identity'
  | 'not-subscribed'
  | 'registered-twice'
  | 'replaced-method'
  | 'reply-without-rpc'
  | 'request-scope'
  | 'rpc-kept'
  | 'unknown-connection'
  | 'unknown-handler-name';

/** A handler with `@Idempotent()` cannot keep what the decorator promises. The application does not start. */
export class IdempotentHandlerError extends Error {
  override readonly name = 'IdempotentHandlerError';

  /**
   * @param handler class and method
   * @param problem which kind of problem, for programs
   * @param detail the fact and the remedy, to be read after the handler's name
   */
  constructor(
    readonly handler: string,
    readonly problem: IdempotentHandlerProblem,
    detail: string,
  ) {
    super(`@Idempotent() on ${handler}: ${detail}`);
  }
}
