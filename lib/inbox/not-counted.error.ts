/** A redelivered message could not be counted, and waiting for it would keep a transaction of the application open. */
import { thrownText } from '../message/thrown-text';
export class NotCountedError extends Error {
  override readonly name = 'NotCountedError';

  constructor(cause: unknown) {
    super(
      `The redelivered message could not be counted, so it goes back to its queue: ${thrownText(cause)}`,
      {
        cause,
      },
    );
  }
}
