import { InvalidArgumentError } from '../message/invalid-argument.error';
import { STORABLE_DATES, storableDate } from '../message/storable-date';
import type { DeadLetterCriteria } from '../persistence/dead-letter-statements';
import type { DeadLetterFilter, DeadLetterId, DeadLetterQuery } from './dead-letter';

export type Box = 'outbox' | 'inbox';

export interface Selection {
  readonly box: Box;
  readonly criteria: DeadLetterCriteria;
}

export interface Page {
  readonly before: string | undefined;
  readonly limit: number;
}

type Values = Readonly<Record<string, unknown>>;

const FILTERS = ['exchange', 'routingKey', 'diedAfter', 'diedBefore', 'errorContains'] as const;
const OWNER = { outbox: 'transport', inbox: 'consumer' } as const;

const MAX_PAGE = 1_000;
const DEFAULT_PAGE = 100;

/** @throws {InvalidArgumentError} naming what is wrong */
export function checkQuery(query: DeadLetterQuery): Selection & { readonly page: Page } {
  const { limit = DEFAULT_PAGE, after, ...filter } = checkObject('list(query)', query);
  if (!(Number.isInteger(limit) && (limit as number) >= 1 && (limit as number) <= MAX_PAGE)) {
    throw new InvalidArgumentError('list({ limit })', limit, `a whole number from 1 to ${MAX_PAGE}`);
  }
  if (after !== undefined && !(typeof after === 'string' && /^\d{1,19}$/.test(after))) {
    throw new InvalidArgumentError('list({ after })', after, 'the `next` of the page before');
  }
  const given = Object.fromEntries(Object.entries(filter).filter(([, value]) => value !== undefined));
  return {
    ...checkFilter('list', given),
    page: { before: after, limit: limit as number },
  };
}

/**
 * One message where there is a message id, else a filter. A property that is there but undefined is a mistake here: it would
 * widen what is replayed or discarded to everything.
 *
 * @throws {InvalidArgumentError} naming what is wrong
 */
export function checkSelection(call: string, which: DeadLetterId | DeadLetterFilter): Selection {
  const values = checkObject(`${call}(which)`, which);
  if ('messageId' in values) return checkId(call, values);
  for (const [name, value] of Object.entries(values)) {
    if (value !== undefined) continue;
    throw new InvalidArgumentError(`${call}({ ${name} })`, value, 'a value; leave it out where any will do');
  }
  return checkFilter(call, values);
}

/** @throws {InvalidArgumentError} naming what is wrong */
export function checkId(call: string, id: Values): Selection {
  const box = checkBox(call, checkObject(`${call}(id)`, id));
  const messageId = checkText(call, 'messageId', id.messageId);
  if (box === 'outbox') return { box, criteria: { messageId } };
  return { box, criteria: { messageId, owner: checkText(call, 'consumer', id.consumer) } };
}

function checkFilter(call: string, filter: Values): Selection {
  const box = checkBox(call, filter);
  const known: readonly string[] = ['box', OWNER[box], ...FILTERS];
  for (const [name, value] of Object.entries(filter)) {
    if (known.includes(name)) continue;
    throw new InvalidArgumentError(`${call}({ ${name} })`, value, `one of ${known.join(', ')}`);
  }
  const owner = filter[OWNER[box]];
  return {
    box,
    criteria: {
      owner: owner === undefined ? undefined : checkText(call, OWNER[box], owner),
      exchange: optional(filter.exchange, (value) => checkText(call, 'exchange', value, '')),
      routingKey: optional(filter.routingKey, (value) => checkText(call, 'routingKey', value, '')),
      diedAfter: optional(filter.diedAfter, (value) => checkDate(call, 'diedAfter', value)),
      diedBefore: optional(filter.diedBefore, (value) => checkDate(call, 'diedBefore', value)),
      errorContains: optional(filter.errorContains, (value) => checkText(call, 'errorContains', value)),
    },
  };
}

function checkObject(argument: string, value: unknown): Values {
  if (typeof value !== 'object' || value === null) {
    throw new InvalidArgumentError(argument, value, "an object with the box, 'outbox' or 'inbox'");
  }
  return value as Values;
}

function checkBox(call: string, { box }: Values): Box {
  if (box === 'outbox' || box === 'inbox') return box;
  throw new InvalidArgumentError(`${call}({ box })`, box, "'outbox' or 'inbox'");
}

function optional<T>(value: unknown, check: (value: unknown) => T): T | undefined {
  return value === undefined ? undefined : check(value);
}

/** @param shortest an empty exchange is AMQP's default one; everything else has a character at least */
function checkText(call: string, name: string, value: unknown, shortest: '' | undefined = undefined): string {
  if (typeof value === 'string' && (value !== '' || value === shortest) && !value.includes('\0'))
    return value;
  throw new InvalidArgumentError(`${call}({ ${name} })`, value, 'a text without U+0000');
}

function checkDate(call: string, name: string, value: unknown): Date {
  const date = storableDate(value);
  if (!date) throw new InvalidArgumentError(`${call}({ ${name} })`, value, STORABLE_DATES);
  return date;
}
