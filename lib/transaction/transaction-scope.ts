import type { DataSource, EntityManager, QueryRunner } from 'typeorm';
import { SerialQueue } from './serial-queue';
import { TransactionEndedError } from './transaction-ended.error';
import type { AfterCommitCallback } from './transaction-source';

/** TypeORM's own type, which it does not export by name. */
export type IsolationLevel = NonNullable<DataSource['options']['isolationLevel']>;

/** A piece of work that gets the manager of its transaction. */
export type TransactionWork<T> = (manager: EntityManager) => Promise<T>;

export type ScopeState = 'active' | 'ending' | 'committed' | 'rolled back';

const never = () => false;

/** One transaction or savepoint: who is inside (see transaction-context.ts), and what hangs on its end. */
export class TransactionScope {
  state: ScopeState = 'active';
  /** In order of registration. A savepoint hands them to its parent when it is released and drops them otherwise. */
  readonly afterCommit: AfterCommitCallback[] = [];
  /** Of the outermost scope only: what is done once it has ended, committed or not. */
  readonly afterEnd: AfterCommitCallback[] = [];
  /** Nested transactions that were started in parallel run one after the other. */
  readonly nested = new SerialQueue();
  /** The savepoint that is open inside this scope; there is one at most. */
  openChild: TransactionScope | undefined;
  /** Set when this scope must not be committed any more. */
  doomed: Error | undefined;
  /** Enclosing scopes that sent statements while this one was open: a rollback of this one takes those back too. */
  readonly intruders = new Set<TransactionScope>();
  /** Whether the calling code is to run without the transaction that it is in, as another library was told. */
  isSuspended: () => boolean = never;
  /** Being opened or closed: an enclosing scope that ends must not come in between. */
  private stepUnderWay: Promise<unknown> | undefined;

  /**
   * @param isolationLevel the level that was asked for when the outer transaction was opened
   * @param depth savepoints around this scope; 0 for the outer transaction
   */
  constructor(
    readonly dataSource: DataSource,
    readonly runner: QueryRunner,
    readonly isolationLevel: IsolationLevel | undefined,
    readonly parent: TransactionScope | undefined,
    readonly depth: number,
  ) {}

  get manager(): EntityManager {
    return this.runner.manager;
  }

  get outermost(): TransactionScope {
    return this.parent ? this.parent.outermost : this;
  }

  get isActive(): boolean {
    return this.state === 'active';
  }

  /** @throws {TransactionEndedError} once the scope has ended */
  assertActive(): void {
    if (this.state !== 'active') throw this.endedError(this.state);
  }

  endedError(state: Exclude<ScopeState, 'active'>): TransactionEndedError {
    return new TransactionEndedError(this.depth > 0 ? 'nested transaction' : 'transaction', state);
  }

  /** Where an ended scope leads instead: nowhere. Overridden for the time in which a scope is being closed. */
  resolve(): TransactionScope | undefined {
    return this;
  }

  async step<T>(work: () => Promise<T>): Promise<T> {
    const running = work();
    const settled = running.then(
      () => undefined,
      () => undefined,
    );
    this.stepUnderWay = settled;
    try {
      return await running;
    } finally {
      if (this.stepUnderWay === settled) this.stepUnderWay = undefined;
    }
  }

  async untilBetweenSteps(): Promise<void> {
    while (this.stepUnderWay) await this.stepUnderWay;
  }
}

/**
 * Stands in for a scope while it is committed or rolled back: the scope itself is over for those that were started in
 * it, but TypeORM subscribers to the end of the transaction still belong to it. Once the database has done it, their
 * statements belong to whatever is around.
 */
export class ClosingScope extends TransactionScope {
  override readonly afterCommit: AfterCommitCallback[];

  /** @param isDone whether the database has done it */
  constructor(
    private readonly closes: TransactionScope,
    private readonly isDone: () => boolean,
  ) {
    super(closes.dataSource, closes.runner, closes.isolationLevel, closes.parent, closes.depth);
    this.afterCommit = closes.afterCommit;
  }

  override resolve(): TransactionScope | undefined {
    return this.isDone() ? this.closes.parent : this;
  }
}
