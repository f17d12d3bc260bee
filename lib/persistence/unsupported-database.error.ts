/** The data source is of a kind that the module has no statements for. Thrown at start. */
export class UnsupportedDatabaseError extends Error {
  override readonly name = 'UnsupportedDatabaseError';

  /**
   * @param type TypeORM's name of the database
   * @param supported TypeORM's names of those that work
   */
  constructor(type: string, supported: readonly string[]) {
    super(
      `InboxOutboxModule cannot work on a data source of type "${type}"; supported: ${supported
        .map((each) => `"${each}"`)
        .join(', ')}. Register the module for a data source of such a type.`,
    );
  }
}
