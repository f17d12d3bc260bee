import type { Duration } from '../message/duration';
import { InvalidOptionError } from '../message/invalid-option.error';
import { timer } from '../message/option-checks';
import type { IsolationLevel } from '../transaction/transaction-scope';
import { isolationLevelOf } from './idempotent.options';

/** Options of `InboxService.process()`. */
export interface ProcessOptions {
  /**
   * How long the work may take before it is rolled back and has failed; `InboxContext.signal` is aborted then. Default: the
   * module's `inbox.timeout`, no limit.
   */
  timeout?: Duration;
  /**
   * What the message contains, e.g. the raw body. A hash of it is kept; the same id with other content is then an error, and the
   * same content under a new id is reported. Default: content is not compared.
   */
  content?: string | Uint8Array;
  /** Isolation level of the transaction. Default: the data source's. Refused inside a transaction of another level. */
  isolationLevel?: IsolationLevel;
}

/** What `InboxService.process()` has done. */
export type ProcessResult<T> =
  /** The work was run, and is committed together with the message's id. */
  | { readonly duplicate: false; readonly value: T }
  /** The message was processed before; the work was not run. */
  | { readonly duplicate: true };

/** Checked; durations are milliseconds. */
export interface ResolvedProcessOptions {
  readonly timeout: number | undefined;
  readonly content: string | Uint8Array | undefined;
  readonly isolationLevel: IsolationLevel | undefined;
}

/** @throws {InvalidOptionError} naming the option and its value */
export function resolveProcessOptions(options: ProcessOptions): ResolvedProcessOptions {
  const name = (option: string) => `process().${option}`;
  if (typeof options !== 'object' || options === null) {
    throw new InvalidOptionError('process().options', options, 'an object');
  }
  const { timeout, content, isolationLevel, ...unknown } = options;
  for (const [option, value] of Object.entries(unknown)) {
    throw new InvalidOptionError(name(option), value, 'one of the options timeout, content, isolationLevel');
  }
  if (content !== undefined && typeof content !== 'string' && !(content instanceof Uint8Array)) {
    throw new InvalidOptionError(name('content'), content, 'a string or bytes');
  }
  return {
    content,
    timeout: timeout === undefined ? undefined : timer(name('timeout'), timeout, 1),
    isolationLevel:
      isolationLevel === undefined ? undefined : isolationLevelOf(name('isolationLevel'), isolationLevel),
  };
}
