/** Reason of a lock's signal: this process must not act as the holder any more. */
export class LockLostError extends Error {
  override readonly name = 'LockLostError';

  constructor(
    readonly lock: string,
    why: string,
  ) {
    super(`Lock ${lock} is lost: ${why}`);
  }
}
