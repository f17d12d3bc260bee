import { inspect } from 'node:util';

/*
 * Texts of what applications throw. Anything can be thrown: an object without a prototype cannot be made a string, and an
 * error can have a message or a stack that is none. None of that may get in the way of settling the message.
 */

/** As `String()` would make it, where that works. Never throws. */
export function thrownText(thrown: unknown): string {
  try {
    return String(thrown);
  } catch {
    return inspected(thrown);
  }
}

/** The message of an error, or the text of anything else. Never throws. */
export function thrownMessage(thrown: unknown): string {
  return (isError(thrown) && own(() => thrown.message)) || thrownText(thrown);
}

/** The error with its stack, where it has one. Never throws. */
export function thrownDetails(thrown: unknown): string {
  return (isError(thrown) && own(() => thrown.stack)) || thrownMessage(thrown);
}

function isError(thrown: unknown): thrown is Error {
  return thrown instanceof Error;
}

function own(read: () => unknown): string | undefined {
  try {
    const text = read();
    return typeof text === 'string' ? text : undefined;
  } catch {
    return undefined;
  }
}

function inspected(thrown: unknown): string {
  try {
    return inspect(thrown, { depth: 1, customInspect: false });
  } catch {
    return 'something that has no text';
  }
}
