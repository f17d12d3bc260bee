/** A transaction was asked for on a data source that the module was not registered for. */
export class DataSourceNotBridgedError extends Error {
  override readonly name = 'DataSourceNotBridgedError';

  constructor() {
    super(
      'This data source is not registered with InboxOutboxModule, so nothing would join its transactions. Register the ' +
        'module for it: InboxOutboxModule.forRoot({ dataSource: ... }).',
    );
  }
}
