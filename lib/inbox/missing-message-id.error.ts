/** A message without an id came to a handler whose `onMissingId` is `'reject'`. */
export class MissingMessageIdError extends Error {
  override readonly name = 'MissingMessageIdError';

  /** @param consumer identity of the handler */
  constructor(consumer: string) {
    super(
      `A message for ${consumer} has no id, so nothing can tell whether it was handled before. Have the publisher set the ` +
        "property messageId, read another one with @Idempotent({ messageId }), or choose onMissingId: 'fingerprint' or 'process'.",
    );
  }
}
