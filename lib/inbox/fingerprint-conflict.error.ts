/** A message came under the id of another one: the id is known, and the content is not the one that was handled. */
export class FingerprintConflictError extends Error {
  override readonly name = 'FingerprintConflictError';

  constructor(
    readonly consumer: string,
    readonly messageId: string,
  ) {
    super(
      `Message ${JSON.stringify(messageId)} for ${consumer} has the id of another message with other content, which is settled ` +
        'already. Have the publisher give each message an id of its own.',
    );
  }
}
