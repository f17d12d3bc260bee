import { InvalidMessageError } from '../message/invalid-message.error';

/**
 * A misspelt option would silently have no effect.
 *
 * @param remedy what to do about one that is not known
 * @throws {InvalidMessageError}
 */
export function checkOptionNames(
  options: object,
  known: readonly string[],
  remedy: (name: string) => string,
): void {
  if (typeof options !== 'object' || options === null) {
    throw new InvalidMessageError('options', options, 'Give an object');
  }
  for (const [name, value] of Object.entries(options)) {
    if (!known.includes(name)) throw new InvalidMessageError(`the option ${name}`, value, remedy(name));
  }
}
