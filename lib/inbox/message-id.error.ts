import { inspect } from 'node:util';

/** A message has an id that cannot be one: nothing can tell whether it was handled before, so it is not handled. */
export class MessageIdError extends Error {
  override readonly name = 'MessageIdError';

  /**
   * @param value what was found as the id
   * @param reason why it cannot be one, to be read after "the message id"
   */
  constructor(
    readonly value: unknown,
    reason: string,
    options?: ErrorOptions,
  ) {
    super(
      `The message id ${reason}: ${shortened(value)}. Have the publisher send another one, or read one with the option messageId.`,
      options,
    );
  }
}

function shortened(value: unknown): string {
  const text = inspect(value, { depth: 1, breakLength: Infinity });
  return text.length > 120 ? `${text.slice(0, 120)}…` : text;
}
