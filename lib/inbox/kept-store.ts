import type { DataSource, QueryRunner } from 'typeorm';
import type { ClaimStore } from '../claiming/claim';
import type { Dialect } from '../persistence/dialect';
import type { ClaimedInboxMessage, InboxKey, KeptMessage } from '../persistence/inbox-message';
import type { FailedRun, StoredMessage, StoringClaim } from '../persistence/kept-inbox-statements';
import { ownRead, ownTransaction } from '../transaction/own-work';
import { rerunOnConflict } from '../transaction/rerun';
import type { KeptPresence } from './kept-presence';
import { errorText, type InboxStore } from './inbox-store';

/** The module's own statements never wait for ever; whoever needs them tries again. Milliseconds. */
const LIMITS = { statementTimeout: 10_000, lockTimeout: 5_000 };

/** What became of a message that was to be kept. */
export type Keeping =
  /** Milliseconds until its next run. */
  | { readonly kind: 'open'; readonly delay: number }
  | { readonly kind: 'dead'; readonly attempts: number }
  /** Another copy has settled it. */
  | { readonly kind: 'settled' };

/** The messages that the inbox table of one data source owns. Each method commits in a short transaction of its own. */
export class KeptStore implements ClaimStore<ClaimedInboxMessage> {
  constructor(
    private readonly dataSource: DataSource,
    private readonly dialect: Pick<Dialect, 'inbox' | 'isRetryable'>,
    private readonly rowsOf: Pick<InboxStore, 'find'>,
    /** Whose messages are claimed. */
    private readonly consumers: () => readonly string[],
    private readonly presence: KeptPresence,
  ) {}

  /**
   * P1 step 6, policy `retry`.
   *
   * @param used attempts that this failure uses up: 0 when its delivery was counted before, or when nobody is to blame
   * @param schedule by the number of attempts
   */
  keep(
    message: KeptMessage,
    error: unknown,
    used: 0 | 1,
    schedule: (attempts: number) => number | 'dead',
  ): Promise<Keeping> {
    return this.keeping(async (runner) => {
      const row = await this.rowsOf.find(runner, message);
      const attempts = Number(row?.attempts ?? 0) + used;
      const next = schedule(attempts);
      if (next === 'dead') {
        const buried = await this.dialect.inbox.bury(runner, message, errorText(error));
        return buried ? { kind: 'dead', attempts } : { kind: 'settled' };
      }
      const failure = { attempts, error: errorText(error), delay: next };
      const kept = await this.dialect.inbox.keep(runner, message, failure);
      return kept ? { kind: 'open', delay: next } : { kind: 'settled' };
    });
  }

  /** See {@link KeptInboxStatements.store}. */
  storeMessages(messages: readonly KeptMessage[], claim?: StoringClaim): Promise<StoredMessage[]> {
    return this.keeping((runner) => this.dialect.inbox.store(runner, messages, claim));
  }

  async anythingDue(): Promise<boolean> {
    const answer = this.presence.ask();
    const { due, kept } = await this.read((runner) => this.dialect.inbox.anyKept(runner, this.consumers()));
    answer(kept);
    return due;
  }

  /** P1 step 7. In the order of storing. */
  async claim(request: { token: string; lease: number; limit: number }): Promise<ClaimedInboxMessage[]> {
    const consumers = this.consumers();
    const claimed = await this.own((runner) =>
      this.dialect.inbox.claimKept(runner, { ...request, consumers }),
    );
    if (claimed.length > 0) this.presence.note();
    return claimed;
  }

  renew(token: string, lease: number, messages: readonly InboxKey[]): Promise<number> {
    return this.own((runner) => this.dialect.inbox.renewKept(runner, token, lease, messages));
  }

  /** @returns its attempts then, or `undefined` when it is not ours any more */
  countSuspect(key: InboxKey, token: string): Promise<number | undefined> {
    return this.own((runner) => this.dialect.inbox.countSuspect(runner, key, token));
  }

  /** P1 step 9. @returns false when it is not ours any more */
  fail(run: Omit<FailedRun, 'error'> & { readonly error: unknown }): Promise<boolean> {
    return this.own((runner) => this.dialect.inbox.failKept(runner, { ...run, error: errorText(run.error) }));
  }

  /** @returns false when it is not ours any more */
  release(key: InboxKey, token: string, suspect: boolean): Promise<boolean> {
    return this.own((runner) => this.dialect.inbox.releaseKept(runner, key, token, { delay: 0, suspect }));
  }

  /** @returns how many messages are open, counted up to `limit` */
  backlog(limit: number): Promise<number> {
    return this.read((runner) => this.dialect.inbox.backlog(runner, limit));
  }

  /** @returns other consumers, whose messages have been due for so many milliseconds */
  waitingConsumers(overdue: number): Promise<string[]> {
    return this.read((runner) => this.dialect.inbox.waitingConsumers(runner, this.consumers(), overdue));
  }

  /** Noted again afterwards: who has asked in the meantime has not seen it. */
  private async keeping<T>(work: (runner: QueryRunner) => Promise<T>): Promise<T> {
    this.presence.note();
    try {
      return await this.own(work);
    } finally {
      this.presence.note();
    }
  }

  private own<T>(work: (runner: QueryRunner) => Promise<T>): Promise<T> {
    return rerunOnConflict(this.dialect, () => ownTransaction(this.dataSource, LIMITS, work));
  }

  /** One statement that only reads. */
  private read<T>(work: (runner: QueryRunner) => Promise<T>): Promise<T> {
    return rerunOnConflict(this.dialect, () => ownRead(this.dataSource, LIMITS, work));
  }
}
