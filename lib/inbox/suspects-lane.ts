import { Mutex } from 'async-mutex';

/** Milliseconds. What kills its process does so long before, and a handler that hangs must not hold up the others for ever. */
const PATIENCE = 60_000;

/**
 * Redelivered messages, one at a time in the whole process. One of them may be what killed the process that had it before:
 * counted and handled side by side, it would take its innocent neighbours along at each death, until they have been
 * delivered so often that they are given up. In the lane only the one whose turn it is gets counted. First deliveries are
 * not held up.
 *
 * One that takes longer than the patience goes on beside the next. Only when the process dies later than that is it counted
 * together with its neighbour.
 */
export class SuspectsLane {
  private readonly mutex = new Mutex();

  /** @param patience milliseconds */
  constructor(private readonly patience = PATIENCE) {}

  async run<T>(work: () => Promise<T>): Promise<T> {
    const leave = await this.mutex.acquire();
    const timer = setTimeout(leave, this.patience).unref();
    try {
      return await work();
    } finally {
      clearTimeout(timer);
      leave();
    }
  }
}
