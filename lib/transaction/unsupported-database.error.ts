/** The data source is of a database family that the module does not know. */
export class UnsupportedDatabaseError extends Error {
  override readonly name = 'UnsupportedDatabaseError';

  /** @param type TypeORM's name of the driver */
  constructor(type: string) {
    super(
      `InboxOutboxModule does not support data sources of type "${type}". Use a data source of type "postgres".`,
    );
  }
}
