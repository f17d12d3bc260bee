/** The server is too old, or refuses what the module's statements need. Thrown at start, and by each claim. */
export class ServerTooOldError extends Error {
  override readonly name = 'ServerTooOldError';

  /**
   * @param minimum oldest server that works
   * @param found what the server says of itself, or its refusal
   */
  constructor(minimum: string, found: string, options?: ErrorOptions) {
    super(
      `InboxOutboxModule needs ${minimum} or newer, since claims and cleaning use FOR UPDATE SKIP LOCKED; ${found}. No ` +
        'message is sent until the server is replaced; nothing is lost meanwhile.',
      options,
    );
  }
}
