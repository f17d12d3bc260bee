import { Mutex } from 'async-mutex';

/** One piece of work at a time for each key, first come, first served. */
export class KeyQueues {
  private readonly queues = new Map<string, { readonly mutex: Mutex; users: number }>();

  async run<T>(key: string, work: () => Promise<T>): Promise<T> {
    const queue = this.queues.get(key) ?? { mutex: new Mutex(), users: 0 };
    this.queues.set(key, queue);
    queue.users++;
    try {
      return await queue.mutex.runExclusive(work);
    } finally {
      if (--queue.users === 0) this.queues.delete(key);
    }
  }
}
