import { NonRetryableError } from '../message/non-retryable.error';

/** A message's body is not what the handler's deserializer can read. The handler was not called. */
export class UndecodableBodyError extends NonRetryableError {
  override readonly name = 'UndecodableBodyError';

  /**
   * @param bytes length of the body
   * @param reason why it cannot be read
   */
  constructor(
    readonly bytes: number,
    reason: string,
    options?: ErrorOptions,
  ) {
    super(
      `The body of ${bytes} bytes cannot be decoded: ${reason}. Have the publisher send what the handler expects, or give the ` +
        'handler a deserializer that reads it.',
      options,
    );
  }
}
