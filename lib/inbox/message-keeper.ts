import type { KeptMessage } from '../persistence/inbox-message';
import type { StoringClaim } from '../persistence/kept-inbox-statements';
import type { Backlog } from './backlog';
import type { InboxProcessor } from './inbox-processor';
import type { Keeping, KeptStore } from './kept-store';
import { identityOf } from './stored-as-claimed';

/** More than any usual prefetch; bounds one statement. */
const MAX_AT_ONCE = 200;

interface Waiting {
  readonly message: KeptMessage;
  readonly resolve: (stored: boolean) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Puts messages into the inbox table: those that are to be handled from there (`processing: 'deferred'`), and those that have
 * failed. The processor is woken once they are committed.
 *
 * Deliveries that come while a statement is under way share the next one. The first goes at once; nobody waits for company.
 * Those that this process can begin at once are stored as claimed, so that no claim has to find them.
 */
export class MessageKeeper {
  private waiting: Waiting[] = [];
  private isStoring = false;

  constructor(
    private readonly store: Pick<KeptStore, 'storeMessages' | 'keep'>,
    private readonly backlog: Pick<Backlog, 'room'>,
    private readonly processor: () => Pick<InboxProcessor, 'notify' | 'storing'>,
  ) {}

  /**
   * Resolves after the commit.
   *
   * @returns false for a duplicate
   * @throws whatever the database says
   */
  async storeMessage(message: KeptMessage): Promise<boolean> {
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
    if (keeping.kind === 'open') this.processor().notify(keeping.delay);
    return keeping;
  }

  private async storeAll(): Promise<void> {
    this.isStoring = true;
    while (this.waiting.length > 0) await this.storeTogether(this.waiting.splice(0, MAX_AT_ONCE));
    this.isStoring = false;
  }

  private async storeTogether(waiting: readonly Waiting[]): Promise<void> {
    // Copies in one statement would meet themselves.
    const distinct = new Map(waiting.map((each) => [identityOf(each.message), each] as const).reverse());
    const first = new Set(distinct.values());
    try {
      const messages = waiting.filter((each) => first.has(each)).map(({ message }) => message);
      const store = (claim?: StoringClaim) => this.store.storeMessages(messages, claim);
      const stored = new Set((await this.processor().storing(messages, store)).map(identityOf));
      for (const each of waiting) each.resolve(first.has(each) && stored.has(identityOf(each.message)));
    } catch (error) {
      for (const each of waiting) each.reject(error);
    }
  }
}
