import { inspect } from 'node:util';
import { NonRetryableError } from '../message/non-retryable.error';

/** A message's ordering key cannot be read, or cannot be kept. Another attempt would end in the same way. */
export class OrderingKeyError extends NonRetryableError {
  override readonly name = 'OrderingKeyError';

  /**
   * @param value the key found, or what the option threw
   * @param problem to be read after "the ordering key … "
   */
  constructor(
    readonly value: unknown,
    problem: string,
    options?: ErrorOptions,
  ) {
    super(`The ordering key ${inspect(value, { depth: 0, maxStringLength: 100 })} ${problem}.`, options);
  }
}
