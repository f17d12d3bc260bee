/** The outbox table already has a message with this id. The transaction that published it has to be rolled back. */
export class DuplicateMessageError extends Error {
  override readonly name = 'DuplicateMessageError';

  constructor(messageIds: readonly string[], options?: ErrorOptions) {
    super(
      `The outbox already has a message with the id ${messageIds.map((id) => `"${id}"`).join(' or ')}. Message ids are ` +
        'unique: leave the option messageId out, or use deduplicationKey where a repetition is to be ignored.',
      options,
    );
  }
}
