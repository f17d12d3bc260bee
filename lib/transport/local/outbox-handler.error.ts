export type OutboxHandlerProblem = 'data-source' | 'duplicate-name' | 'request-scope';

/** An `@OutboxHandler()` method cannot be called as it should. The application does not start. */
export class OutboxHandlerError extends Error {
  override readonly name = 'OutboxHandlerError';

  /**
   * @param handler class and method
   * @param problem which kind of problem, for programs
   * @param detail the fact and the remedy, to be read after the handler's name
   */
  constructor(
    readonly handler: string,
    readonly problem: OutboxHandlerProblem,
    detail: string,
  ) {
    super(`@OutboxHandler() on ${handler}: ${detail}`);
  }
}
