import { Mutex } from 'async-mutex';

/**
 * Redelivered messages, one at a time in the whole process. One of them may be what killed the process that had it before:
 * counted and handled side by side, it would take its innocent neighbours along at each death, until they have been
 * delivered so often that they are given up. In the lane only the one whose turn it is gets counted. First deliveries are
 * not held up.
 */
export class SuspectsLane {
  private readonly mutex = new Mutex();

  run<T>(work: () => Promise<T>): Promise<T> {
    return this.mutex.runExclusive(work);
  }
}
