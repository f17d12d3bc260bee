import type { QueryRunner } from 'typeorm';
import { asPromise } from '../timing/as-promise';
import { ConnectionLostError, explainLoss } from './connection-lost.error';
import { dataSourceOf } from './data-source-of';
import { StatementQueue } from './statement-queue';
import { TransactionAbortedError } from './transaction-aborted.error';
import { currentScopeOn } from './transaction-context';
import type { TransactionGuard } from './transaction-guard';
import { ClosingScope, type TransactionScope } from './transaction-scope';

/** What TypeORM sends to open and to end a transaction or savepoint, in the versions supported. */
const CONTROL = /^(?:SAVEPOINT|RELEASE SAVEPOINT|ROLLBACK|COMMIT)\b/;

type Send = (...args: unknown[]) => Promise<unknown>;

interface ControlStatement {
  readonly kind: 'savepoint' | 'commit' | 'rollback';
  /** Called in the moment in which the statement has succeeded, before the next one in the queue gets its turn. */
  readonly done: () => void;
}

const conducted = new WeakMap<QueryRunner, ConductedRunner>();

/**
 * Everything the bridge does to one runner while it has a transaction open. Its `query` is replaced on the instance (for
 * the runner's life, which is short), because all statements pass there:
 *
 * 1. Code that was started in a scope that is over is refused.
 * 2. Statements wait for each other.
 * 3. When its turn has come, the transaction must still be open; and before COMMIT also unharmed.
 * 4. A statement that comes from an enclosing scope while a savepoint is open is noted: a rollback to the savepoint would
 *    take it back without anybody's knowledge.
 */
export class ConductedRunner {
  /** The outer transaction that is open on the runner. */
  outer: TransactionScope | undefined;
  /** The savepoint that was opened last and is still open, or the outer transaction. */
  innermost: TransactionScope | undefined;
  /** Why the connection broke. */
  lost: ConnectionLostError | undefined;
  private readonly queue = new StatementQueue();
  private stopWatching: (() => void) | undefined;
  private control: ControlStatement | undefined;
  /** Nobody has put a `query` of his own around TypeORM's, which could send statements from inside of it. */
  private readonly isTypeormsOwn: boolean;
  private readonly commitTransaction: () => Promise<void>;
  private readonly rollbackTransaction: () => Promise<void>;

  static of(runner: QueryRunner, guard: TransactionGuard): ConductedRunner {
    let found = conducted.get(runner);
    if (!found) conducted.set(runner, (found = new ConductedRunner(runner, guard)));
    return found;
  }

  static find(runner: QueryRunner): ConductedRunner | undefined {
    return conducted.get(runner);
  }

  private constructor(
    readonly runner: QueryRunner,
    readonly guard: TransactionGuard,
  ) {
    this.commitTransaction = runner.commitTransaction.bind(runner);
    this.rollbackTransaction = runner.rollbackTransaction.bind(runner);
    this.isTypeormsOwn = isTypeormsOwn((runner as unknown as { query: object }).query);
    const send = runner.query.bind(runner) as Send;
    const query = (...args: unknown[]) => asPromise(() => this.query(send, args));
    Object.assign(runner, { query });
  }

  /** Takes charge of a transaction that has just been started, until `close`. */
  open(outer: TransactionScope): Promise<void> | undefined {
    this.adopt(outer);
    const watching = this.guard.watch?.(this.runner, (cause) => {
      this.lost ??= new ConnectionLostError(cause);
    });
    if (watching instanceof Promise) return watching.then((stop) => void (this.stopWatching = stop));
    this.stopWatching = watching;
    return undefined;
  }

  /** The same for one that somebody else has started and looks after. */
  adopt(outer: TransactionScope): void {
    this.outer = this.innermost = outer;
  }

  close(outer: TransactionScope): void {
    if (this.outer !== outer) return;
    this.outer = this.innermost = undefined;
    this.stopWatching?.();
    this.stopWatching = undefined;
  }

  setSavepoint(scope: TransactionScope): Promise<void> {
    const done = () => void (this.innermost = scope);
    return this.controlled({ kind: 'savepoint', done }, () => this.runner.startTransaction());
  }

  /** COMMIT or RELEASE SAVEPOINT; the guard is asked right before a COMMIT goes out. */
  commit(scope: TransactionScope): Promise<void> {
    const done = () => void (this.innermost = scope.parent);
    return this.controlled({ kind: 'commit', done }, this.commitTransaction);
  }

  /** ROLLBACK or ROLLBACK TO SAVEPOINT. */
  rollback(scope: TransactionScope): Promise<void> {
    const done = () => {
      this.innermost = scope.parent;
      for (const intruder of scope.intruders) intruder.doomed ??= new TransactionAbortedError('undone');
    };
    return this.controlled({ kind: 'rollback', done }, this.rollbackTransaction);
  }

  /** What to throw for an error. */
  explain(error: unknown): unknown {
    return explainLoss(error, this.lost);
  }

  private controlled(control: ControlStatement, act: () => Promise<void>): Promise<void> {
    const around = this.control;
    this.control = control;
    return asPromise(act).then(
      () => void (this.control = around),
      (error: unknown) => {
        this.control = around;
        throw error;
      },
    );
  }

  private query(send: Send, args: unknown[]): Promise<unknown> {
    const scope = currentScopeOn(this.runner);
    scope?.assertActive();
    if (this.lost && this.runner.isReleased) throw this.lost;
    const isWatched = !this.isTypeormsOwn || dataSourceOf(this.runner).subscribers.length > 0;
    return this.queue.run(() => this.sendInTurn(send, args, scope), isWatched);
  }

  private sendInTurn(send: Send, args: unknown[], scope: TransactionScope | undefined): Promise<unknown> {
    const text = args[0];
    const control = this.control && typeof text === 'string' && CONTROL.test(text) ? this.control : undefined;
    if (!this.outer || control?.kind === 'rollback') return sendNow(send, args, control);
    const answer =
      text === 'COMMIT' && control
        ? this.guard.assertAlive(this.runner)
        : this.guard.assertOpen?.(this.runner);
    const allowed = () => {
      if (this.outer && !(scope instanceof ClosingScope)) this.noteIntruder(scope ?? this.outer);
      return sendNow(send, args, control);
    };
    return answer ? answer.then(allowed) : allowed();
  }

  private noteIntruder(sender: TransactionScope): void {
    for (let open = this.innermost; open && open !== sender; open = open.parent) open.intruders.add(sender);
  }
}

const known = new WeakMap<object, boolean>();

function isTypeormsOwn(query: object): boolean {
  let isOwn = known.get(query);
  // By its text: whoever replaces it may have done so before us.
  if (isOwn === undefined)
    known.set(
      query,
      (isOwn = Function.prototype.toString.call(query).includes('this.broadcaster.broadcast')),
    );
  return isOwn;
}

function sendNow(send: Send, args: unknown[], control: ControlStatement | undefined): Promise<unknown> {
  const sent = send(...args);
  if (!control) return sent;
  return sent.then((result) => {
    control.done();
    return result;
  });
}
