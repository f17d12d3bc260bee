/** Something around a handler has answered in its place: a kept message is not handled by that, and is not forgotten. */
export class NotReachedError extends Error {
  override readonly name = 'NotReachedError';

  /** @param handler class and method */
  constructor(handler: string) {
    super(
      `${handler} was not reached: a guard's error was swallowed by an exception filter, or an interceptor around has answered ` +
        'in its place.',
    );
  }
}
