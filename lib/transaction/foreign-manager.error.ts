/** An entity manager of one data source was passed where another data source's was meant. */
export class ForeignManagerError extends Error {
  override readonly name = 'ForeignManagerError';

  constructor() {
    super(
      'The manager passed belongs to another data source than this service. Pass a manager of the same data source, or ' +
        "inject the service that is registered for the manager's data source.",
    );
  }
}
