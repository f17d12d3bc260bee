/** A handle was used twice. Each is good for one `unlock()` or one `extend()`, which gives the next handle. */
export class LockHandleUsedError extends Error {
  override readonly name = 'LockHandleUsedError';

  constructor(
    readonly lock: string,
    readonly attempted: 'unlock' | 'extend',
    why: string,
  ) {
    super(`Lock ${lock}: ${attempted}() is not possible: ${why}`);
  }
}
