/** A table or column of the module is missing, or the entities are not registered. Thrown at start. */
export class InboxOutboxSchemaError extends Error {
  override readonly name = 'InboxOutboxSchemaError';

  /** @param problems what is missing, one line each */
  constructor(
    readonly problems: readonly string[],
    remedy: string,
  ) {
    super(`InboxOutboxModule: ${problems.join('; ')}. ${remedy}`);
  }
}
