import type { KeptMessage } from '../persistence/inbox-message';
import type { Backlog } from './backlog';
import type { Keeping, KeptStore } from './kept-store';

/** More than any usual prefetch; bounds one statement. */
const MAX_AT_ONCE = 200;

interface Waiting {
  readonly message: KeptMessage;
  readonly resolve: (stored: boolean) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Puts messages into the inbox table: those that are to be handled from there (`processing: 'deferred'`), and those that have
 * failed. Whoever waits for the processor is woken once they are committed.
 *
 * Deliveries that come while a statement is under way share the next one. The first goes at once; nobody waits for company.
 */
export class MessageKeeper {
  private waiting: Waiting[] = [];
  private isStoring = false;

  /** @param notify called after a commit, with the milliseconds until something is due */
  constructor(
    private readonly store: Pick<KeptStore, 'storeOpen' | 'keep'>,
    private readonly backlog: Pick<Backlog, 'room'>,
    private readonly notify: (delay: number) => void,
  ) {}

  /**
   * Resolves after the commit.
   *
   * @returns false for a duplicate
   * @throws whatever the database says
   */
  async storeOpen(message: KeptMessage): Promise<boolean> {
    await this.backlog.room();
    return new Promise((resolve, reject) => {
      this.waiting.push({ message, resolve, reject });
      if (!this.isStoring) void this.storeAll();
    });
  }

  /** P1 step 6; see {@link KeptStore.keep}. */
  async keep(...[message, error, used, schedule]: Parameters<KeptStore['keep']>): Promise<Keeping> {
    // A dead one adds nothing that has to be worked off.
    if (schedule(1) !== 'dead') await this.backlog.room();
    const keeping = await this.store.keep(message, error, used, schedule);
    if (keeping.kind === 'open') this.notify(keeping.delay);
    return keeping;
  }

  private async storeAll(): Promise<void> {
    this.isStoring = true;
    while (this.waiting.length > 0) await this.storeTogether(this.waiting.splice(0, MAX_AT_ONCE));
    this.isStoring = false;
  }

  private async storeTogether(waiting: readonly Waiting[]): Promise<void> {
    // Copies in one statement would meet themselves.
    const distinct = new Map(waiting.map((each) => [identity(each.message), each] as const).reverse());
    const first = new Set(distinct.values());
    try {
      const messages = waiting.filter((each) => first.has(each)).map(({ message }) => message);
      const stored = new Set((await this.store.storeOpen(messages)).map(identity));
      if (stored.size > 0) this.notify(0);
      for (const each of waiting) each.resolve(first.has(each) && stored.has(identity(each.message)));
    } catch (error) {
      for (const each of waiting) each.reject(error);
    }
  }
}

const identity = ({
  consumer,
  messageId,
}: {
  readonly consumer: string;
  readonly messageId: string;
}): string => JSON.stringify([consumer, messageId]);
