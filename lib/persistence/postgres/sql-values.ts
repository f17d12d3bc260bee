/** A parameter in milliseconds as an interval. */
export const milliseconds = (parameter: string): string => `${parameter}::float8 * interval '1 millisecond'`;

/**
 * A time with zone as milliseconds since 1970, as text. Dates and 64-bit numbers are read as text throughout, because an
 * application may replace pg's type parsers for the whole process (`types.setTypeParser`).
 */
export const epochText = (time: string): string => `(extract(epoch FROM ${time}) * 1000)::text`;

export const toDate = (epoch: string): Date => new Date(Math.round(Number(epoch)));

/**
 * An instant as PostgreSQL reads it in any session time zone. pg's own conversion writes local time with an offset in
 * minutes, which is wrong for dates from before the zones had whole minutes.
 */
export const instant = (date: Date | undefined): string | null => date?.toISOString() ?? null;

const MAX_ERROR_LENGTH = 10_000;

/** An error text that a text column can hold: no U+0000, and not longer than a person would read. */
export function storable(error: string): string {
  const text = error.replaceAll('\0', '\\0');
  return text.length > MAX_ERROR_LENGTH ? `${text.slice(0, MAX_ERROR_LENGTH)}…` : text;
}
