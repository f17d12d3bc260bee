import type { Deadline } from './deadline';
import { LockLostError } from './lock-lost.error';

/** The signal of a lock that is not renewed by itself: one for all handles of it, however often it is extended. */
export class LeaseEnd {
  private readonly controller = new AbortController();
  private timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly name: string,
    deadline: Deadline,
  ) {
    this.move(deadline);
  }

  get signal(): AbortSignal {
    return this.controller.signal;
  }

  move(deadline: Deadline): void {
    this.cancel();
    // An unanswered wait for it keeps no process alive: the lock itself would not either.
    this.timer = setTimeout(() => this.lose('its time ran out'), deadline.remaining).unref();
  }

  lose(why: string): void {
    this.cancel();
    this.controller.abort(new LockLostError(this.name, why));
  }

  /** It does not end any more: the lock was given back. */
  cancel(): void {
    clearTimeout(this.timer);
  }
}
