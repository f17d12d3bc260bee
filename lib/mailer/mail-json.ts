import { types } from 'node:util';
import { InvalidMessageError } from '../message/invalid-message.error';
import { line } from './mail-lines';

export type Check = (field: string, value: unknown) => unknown;

/** What JSON brings back as it was. Streams, functions and class instances are refused: the mail is sent later, elsewhere. */
export function plain(field: string, value: unknown): unknown {
  return copy(field, value, (name, text) => {
    if (typeof text !== 'string') throw new InvalidMessageError(name, text, 'Give a text');
    return text;
  });
}

/** As {@link plain}, for what becomes part of headers: no line breaks in its texts. */
export function plainLines(field: string, value: unknown): unknown {
  return copy(field, value, line);
}

function copy(field: string, value: unknown, text: Check): unknown {
  if (value === null || typeof value === 'boolean') return value;
  if (typeof value === 'number' && Number.isFinite(value)) return value;
  if (typeof value === 'string') return text(field, value);
  if (types.isDate(value)) return isoDate(field, value);
  if (Array.isArray(value)) return value.map((each, index) => copy(`${field}[${index}]`, each, text));
  return entriesOf(field, value, (name, each) => copy(name, each, text));
}

/** Checks each property that is not undefined. */
export function entriesOf(field: string, value: unknown, check: Check): Record<string, unknown> {
  const entries = Object.entries(plainObject(field, value)).filter(([, each]) => each !== undefined);
  return Object.fromEntries(entries.map(([name, each]) => [name, check(`${field}.${name}`, each)]));
}

/** Checks each property by its own rule, and refuses those that have none: a misspelt one would silently have no effect. */
export function propertiesOf(
  field: string,
  value: unknown,
  rules: Readonly<Record<string, Check>>,
): Record<string, unknown> {
  return entriesOf(field, value, (name, each) => {
    const rule = rules[name.slice(field.length + 1)];
    if (!rule) {
      const known = Object.keys(rules).join(', ');
      throw new InvalidMessageError(name, each, `There is no such property; known are ${known}`);
    }
    return rule(name, each);
  });
}

function plainObject(field: string, value: unknown): object {
  if (typeof value === 'object' && value !== null) {
    if (typeof (value as { pipe?: unknown }).pipe === 'function' || Symbol.asyncIterator in value) {
      throw new InvalidMessageError(
        field,
        'a stream',
        'A stream cannot be stored; read it into a Buffer, or give path or href',
      );
    }
    const prototype: unknown = Object.getPrototypeOf(value);
    if (prototype === null || prototype === Object.prototype) return value;
  }
  throw new InvalidMessageError(
    field,
    value,
    'It cannot be stored; give text, numbers, lists and plain objects',
  );
}

/** A date that every mail program can read. */
export function isoDate(field: string, value: unknown): string {
  const date = typeof value === 'string' ? new Date(line(field, value)) : value;
  if (!types.isDate(date) || Number.isNaN(date.getTime())) {
    throw new InvalidMessageError(field, value, 'Give a valid Date');
  }
  return date.toISOString();
}

export const flag: Check = (field, value) => {
  if (typeof value !== 'boolean') throw new InvalidMessageError(field, value, 'Give true or false');
  return value;
};

/** The rule's value, or `false`. */
export const orFalse =
  (rule: Check): Check =>
  (field, value) =>
    value === false ? false : rule(field, value);

export const oneOfWords =
  (...words: string[]): Check =>
  (field, value) => {
    if (typeof value === 'string' && words.includes(value)) return value;
    throw new InvalidMessageError(field, value, `Give one of ${words.map((word) => `'${word}'`).join(', ')}`);
  };

/** A list of things that each follow the rule. */
export const listOf =
  (rule: Check): Check =>
  (field, value) => {
    if (!Array.isArray(value)) throw new InvalidMessageError(field, value, 'Give a list');
    return value.map((each, index) => rule(`${field}[${index}]`, each));
  };
