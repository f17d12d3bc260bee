import { toMilliseconds, type Duration } from './duration';
import { InvalidOptionError } from './invalid-option.error';

/** A misspelt option would silently leave its default in force. */
export function known(path: string, options: object, names: readonly string[]): void {
  if (typeof options !== 'object' || options === null) {
    throw new InvalidOptionError(path.replace(/\.$/, '') || 'options', options, 'an object');
  }
  for (const name of Object.keys(options)) {
    if (!names.includes(name)) {
      throw new InvalidOptionError(
        `${path}${name}`,
        (options as Record<string, unknown>)[name],
        `one of the options ${names.join(', ')}`,
      );
    }
  }
}

/** An object of the user's, as far as it can be checked without calling it. */
export function withMethod<T extends object>(
  option: string,
  value: T | undefined,
  method: keyof T,
): T | undefined {
  if (value === undefined) return undefined;
  if (typeof value !== 'object' || value === null || typeof value[method] !== 'function') {
    throw new InvalidOptionError(option, value, `an object with a method ${String(method)}()`);
  }
  return value;
}

/** A list of objects of the user's, as far as they can be checked without calling them. */
export function listOf<T extends object>(
  option: string,
  values: readonly T[],
  method: keyof T,
): readonly T[] {
  if (!Array.isArray(values)) throw new InvalidOptionError(option, values, 'an array');
  return values.map((value: T | undefined, index) => {
    const checked = withMethod(`${option}[${index}]`, value, method);
    if (!checked) throw new InvalidOptionError(`${option}[${index}]`, value, 'an object');
    return checked;
  });
}

/** @throws {InvalidOptionError} unless the value is one of those allowed */
export function oneOf<T>(option: string, value: T, allowed: readonly T[]): T {
  if (!allowed.includes(value)) {
    throw new InvalidOptionError(
      option,
      value,
      `one of ${allowed.map((each) => JSON.stringify(each)).join(', ')}`,
    );
  }
  return value;
}

/** Node fires a timer of more than 2^31 − 1 ms at once. */
const MAX_TIMER = 2 ** 31 - 1;

/** A duration that a timer of Node can wait for. */
export function timer(option: string, value: Duration, minimum: number): number {
  const milliseconds = toMilliseconds(option, value);
  if (milliseconds < minimum || milliseconds > MAX_TIMER) {
    throw new InvalidOptionError(
      option,
      value,
      `a duration from ${minimum} ms to ${MAX_TIMER} ms (24.8 days)`,
    );
  }
  return milliseconds;
}

export function integer(option: string, value: number, minimum: number, maximum: number): number {
  if (!Number.isInteger(value)) throw new InvalidOptionError(option, value, 'a whole number');
  return number(option, value, minimum, maximum);
}

/** A number of attempts, or `Infinity` for no limit. */
export function attempts(option: string, value: number): number {
  return value === Infinity ? value : integer(option, value, 1, 1_000_000);
}

export function number(option: string, value: number, minimum: number, maximum: number): number {
  if (typeof value !== 'number' || !(value >= minimum && value <= maximum)) {
    throw new InvalidOptionError(option, value, `a number from ${minimum} to ${maximum}`);
  }
  return value;
}

export function optionalFunction<F>(option: string, value: F | undefined): F | undefined {
  if (value !== undefined && typeof value !== 'function') {
    throw new InvalidOptionError(option, value, 'a function');
  }
  return value;
}
