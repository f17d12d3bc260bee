import { InvalidOptionError } from '../message/invalid-option.error';

/** Characters, as the column `name varchar(64)` counts them; not bytes and not UTF-16 units. */
const MAX_CHARACTERS = 64;

/**
 * A lock's name must be one that the table can hold as it is: cut to its column, two names would become one lock.
 *
 * @param option the option's full name, for the error
 * @throws {InvalidOptionError} for a name that is empty, blank, too long, or that no text column can hold
 */
export function checkLockName(option: string, name: string): string {
  if (typeof name !== 'string' || name.trim() === '') {
    throw new InvalidOptionError(option, name, 'a lock name that is not blank');
  }
  const characters = [...name].length;
  if (characters > MAX_CHARACTERS) {
    throw new InvalidOptionError(
      option,
      name,
      `a lock name of at most ${MAX_CHARACTERS} characters; it has ${characters}`,
    );
  }
  if (name.includes('\0') || /\p{Surrogate}/u.test(name)) {
    throw new InvalidOptionError(option, name, 'a lock name without U+0000 and without half surrogate pairs');
  }
  return name;
}
