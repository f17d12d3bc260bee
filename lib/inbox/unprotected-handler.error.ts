/** A handler with `@Idempotent()` was about to run without the inbox around it. It did not run. */
export class UnprotectedHandlerError extends Error {
  override readonly name = 'UnprotectedHandlerError';

  /** @param handler class and method */
  constructor(readonly handler: string) {
    super(
      `${handler} is decorated with @Idempotent(), but nothing of the inbox runs around it, so it was not called. Import ` +
        'InboxOutboxModule.forRoot() in the application, and see that only one copy of nestjs-inbox-outbox is installed.',
    );
  }
}
