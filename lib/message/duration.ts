import ms from 'ms';
import { InvalidOptionError } from './invalid-option.error';

/** Milliseconds as a number, or a string such as `'500ms'`, `'30s'`, `'10m'`, `'7d'`. */
export type Duration = number | ms.StringValue;

/** Durations of a century and more are typing errors, and they do not fit the databases' interval arithmetic. */
const MAX_MILLISECONDS = 100 * 365.25 * 24 * 3_600_000;

/**
 * Reads a duration.
 *
 * @param option the option's full name, for the error
 * @returns whole milliseconds, 0 or more
 * @throws {InvalidOptionError} for a negative, infinite or unreadable value
 */
export function toMilliseconds(option: string, value: Duration): number {
  const milliseconds = typeof value === 'string' ? parse(value) : value;
  if (typeof milliseconds !== 'number' || !(milliseconds >= 0 && milliseconds <= MAX_MILLISECONDS)) {
    throw new InvalidOptionError(
      option,
      value,
      "a duration: milliseconds, or a string such as '500ms', '30s', '7d'",
    );
  }
  return Math.round(milliseconds);
}

function parse(value: ms.StringValue): number | undefined {
  // ms throws for the empty string and for over-long ones, and gives undefined or NaN for what it cannot read.
  try {
    return ms(value);
  } catch {
    return undefined;
  }
}
