import type { DataSource, QueryRunner } from 'typeorm';
import type { ClaimStore } from '../claiming/claim';
import type { Dialect } from '../persistence/dialect';
import type { HandlerRoom } from '../persistence/local-outbox-statements';
import type {
  ClaimedMessage,
  ClaimRequest,
  Settlement,
  SettlementResult,
} from '../persistence/outbox-statements';
import { ownRead, ownTransaction } from '../transaction/own-work';
import { rerunOnConflict } from '../transaction/rerun';
import { Sweep } from './sweep';

export interface OutboxStoreDependencies {
  readonly dataSource: DataSource;
  readonly dialect: Pick<Dialect, 'outbox' | 'isRetryable'>;
  /** Milliseconds that one statement may take on the server. Default 10,000. */
  readonly statementTimeout?: number;
  /** Whether a dead message stops its ordering key. Default false. */
  readonly haltOnDead?: boolean;
}

/** The outbox statements of the dispatcher and the cleaner, each in a short transaction of its own. */
export class OutboxStore implements ClaimStore<ClaimedMessage> {
  private readonly timeouts: { statementTimeout: number; lockTimeout: number };
  private readonly sweep = new Sweep();

  constructor(private readonly use: OutboxStoreDependencies) {
    const { statementTimeout = 10_000 } = use;
    this.timeouts = { statementTimeout, lockTimeout: statementTimeout };
  }

  /** Whether a claim could find anything. */
  async anythingDue(): Promise<boolean> {
    const look = (after: string) => this.read((runner) => this.use.dialect.outbox.anythingDue(runner, after));
    return (await look(this.sweep.after)) || (this.sweep.startOver() && (await look(this.sweep.after)));
  }

  /** @returns milliseconds until the next planned date; `undefined` when nothing is planned */
  untilNextDate(): Promise<number | undefined> {
    return this.read((runner) => this.use.dialect.outbox.untilNextDate(runner));
  }

  /** Sorted by sequence. */
  async claim(request: Pick<ClaimRequest, 'token' | 'lease' | 'limit'>): Promise<ClaimedMessage[]> {
    const claimed = await this.claimNext(request);
    return claimed.length === 0 && this.sweep.startOver() ? this.claimNext(request) : claimed;
  }

  private async claimNext(
    request: Pick<ClaimRequest, 'token' | 'lease' | 'limit'>,
  ): Promise<ClaimedMessage[]> {
    const { dialect, haltOnDead = false } = this.use;
    const { after } = this.sweep;
    const started = performance.now();
    const claimed = await this.inTransaction((runner) =>
      dialect.outbox.claim(runner, { ...request, after, haltOnDead }),
    );
    const last = claimed.findLast(({ orderingKey }) => orderingKey === null);
    this.sweep.claimed(after, last?.seq, performance.now() - started);
    return claimed;
  }

  /** Whether a claim for these local handlers could find anything. */
  anyLocalDue(handlers: readonly string[]): Promise<boolean> {
    return this.read((runner) => this.use.dialect.outbox.anyLocalDue(runner, handlers));
  }

  /** Claims of messages for local handlers, of each as many as it has room for. */
  localClaims(handlers: readonly HandlerRoom[]): ClaimStore<ClaimedMessage> {
    return {
      claim: (request) =>
        this.inTransaction((runner) =>
          this.use.dialect.outbox.claimLocal(runner, {
            ...request,
            handlers,
            haltOnDead: this.use.haltOnDead,
          }),
        ),
      renew: (token, lease, messages) => this.renew(token, lease, messages),
    };
  }

  /** See `LocalOutboxStatements`. */
  neglectedHandlers(known: readonly string[], since: number): Promise<string[]> {
    return this.inTransaction((runner) => this.use.dialect.outbox.neglectedHandlers(runner, known, since));
  }

  renew(token: string, lease: number, messages: readonly ClaimedMessage[]): Promise<number> {
    const seqs = messages.map(({ seq }) => seq);
    return this.inTransaction((runner) => this.use.dialect.outbox.renew(runner, token, lease, seqs));
  }

  /** Messages that belong to the token no longer are left as they are. */
  settle(settlement: Settlement): Promise<SettlementResult> {
    return this.inTransaction((runner) => this.use.dialect.outbox.settle(runner, settlement));
  }

  /**
   * @param olderThan milliseconds since they were sent
   * @param deduplicationRetention at least as many for those with a deduplication key
   * @returns how many were deleted
   */
  deleteSent(olderThan: number, limit: number, deduplicationRetention?: number): Promise<number> {
    return this.inTransaction((runner) =>
      this.use.dialect.outbox.deleteSent(runner, olderThan, limit, deduplicationRetention),
    );
  }

  private inTransaction<T>(work: (runner: QueryRunner) => Promise<T>): Promise<T> {
    return rerunOnConflict(this.use.dialect, () => ownTransaction(this.use.dataSource, this.timeouts, work));
  }

  private read<T>(work: (runner: QueryRunner) => Promise<T>): Promise<T> {
    return rerunOnConflict(this.use.dialect, () => ownRead(this.use.dataSource, this.timeouts, work));
  }
}
