import { inspect } from 'node:util';

/** An option has a value that cannot work. Thrown at start, or when a decorator is evaluated; never later. */
export class InvalidOptionError extends Error {
  override readonly name = 'InvalidOptionError';

  /**
   * @param option the option's full name as the user wrote it, e.g. `outbox.batchSize`
   * @param value the value found
   * @param expected what would have been accepted, to be read after "expected"
   */
  constructor(
    readonly option: string,
    readonly value: unknown,
    readonly expected: string,
  ) {
    super(
      `InboxOutboxModule: option "${option}" is ${inspect(value, { depth: 1, breakLength: Infinity })}; expected ${expected}.`,
    );
  }
}
