import { inspect } from 'node:util';

/** A message cannot be published as it is. Thrown at the call, before any SQL: the caller's transaction stays usable. */
export class InvalidMessageError extends Error {
  override readonly name = 'InvalidMessageError';

  /**
   * @param field what is wrong, as the caller wrote it, e.g. `headers.trace` or `payload.user.id`
   * @param value the value found
   * @param remedy what to do, as a sentence without its full stop
   */
  constructor(
    readonly field: string,
    readonly value: unknown,
    remedy: string,
    options?: ErrorOptions,
  ) {
    super(`Cannot publish the message: ${field} is ${show(value)}. ${remedy}.`, options);
  }
}

const MAX_SHOWN = 200;

function show(value: unknown): string {
  let text: string;
  try {
    text = inspect(value, { depth: 1, breakLength: Infinity, maxStringLength: 80, maxArrayLength: 5 });
  } catch {
    text = `a value of type ${typeof value}`;
  }
  return text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}…` : text;
}
