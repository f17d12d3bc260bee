import { inspect } from 'node:util';

/** A method was called with a value that cannot work. Thrown before any SQL: the caller's transaction stays usable. */
export class InvalidArgumentError extends Error {
  override readonly name = 'InvalidArgumentError';

  /**
   * @param argument as the caller wrote it, with the method, e.g. `cancel(messageId)`
   * @param value the value found
   * @param expected what would have been accepted, to be read after "expected"
   */
  constructor(
    readonly argument: string,
    readonly value: unknown,
    readonly expected: string,
  ) {
    super(
      `${argument} is ${inspect(value, { depth: 1, breakLength: Infinity, maxStringLength: 80 })}; expected ${expected}.`,
    );
  }
}
