const MIN_DATE = new Date('0001-01-01T00:00:00.000Z').getTime();
const MAX_DATE = new Date('9999-12-31T23:59:59.999Z').getTime();

/** What {@link storableDate} takes, for errors. */
export const STORABLE_DATES = 'a valid Date in the years 1 to 9999';

/**
 * The years that every database can hold.
 *
 * @returns a copy, since the caller's object can be changed later; `undefined` for anything else
 */
export function storableDate(date: unknown): Date | undefined {
  const time = date instanceof Date ? date.getTime() : NaN;
  return time >= MIN_DATE && time <= MAX_DATE ? new Date(time) : undefined;
}
