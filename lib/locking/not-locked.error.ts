/** `assertLocked()` outside of a lock: the code would run unprotected. */
export class NotLockedError extends Error {
  override readonly name = 'NotLockedError';

  constructor(readonly lock: string | undefined) {
    super(
      `This code must run under ${lock === undefined ? 'a lock' : `the lock ${lock}`}, and does not, or no longer. Run it in ` +
        'LockService.execute() or in a method with @SchedulerLock(), and await all that it starts.',
    );
  }
}
