/** The database, or the way to it, gave no answer in time. Whether the statements took effect is not known. */
export class DatabaseUnansweredError extends Error {
  override readonly name = 'DatabaseUnansweredError';

  /** @param patience milliseconds that were waited */
  constructor(readonly patience: number) {
    super(
      `The database gave no answer within ${patience} ms; the connection is closed, and the work is tried again.`,
    );
  }
}
