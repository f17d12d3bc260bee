/** A method with `@SchedulerLock()` cannot be protected, so it does not run. The message says what to do. */
export class SchedulerLockError extends Error {
  override readonly name = 'SchedulerLockError';

  /** @param job class and method */
  constructor(
    readonly job: string,
    fact: string,
  ) {
    super(`@SchedulerLock() on ${job}: ${fact}`);
  }
}
