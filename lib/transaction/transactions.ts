import { Injectable } from '@nestjs/common';
import type { DataSource, EntityManager, QueryRunner } from 'typeorm';
import { asPromise } from '../timing/as-promise';
import { AfterCommitUnsupportedError } from './after-commit-unsupported.error';
import { bridgeGuard, isBridged } from './bridge';
import { DataSourceNotBridgedError } from './data-source-not-bridged.error';
import { dataSourceOf } from './data-source-of';
import { ForeignManagerError } from './foreign-manager.error';
import { joinHandDriven } from './hand-driven';
import { outsideSources } from './outside-sources';
import { OwnTransactionSource } from './own-transaction-source';
import { currentScope, runOutsideScopes } from './transaction-context';
import { TransactionRequiredError } from './transaction-required.error';
import type { IsolationLevel, TransactionScope } from './transaction-scope';
import type { AfterCommitCallback, TransactionSource } from './transaction-source';

/** Options of `Transactions.run()`. */
export interface RunOptions {
  /** Default: the data source's, which by default is the server's. Refused inside an active transaction. */
  readonly isolationLevel?: IsolationLevel;
  /** Default: the one that this service is registered for. */
  readonly dataSource?: DataSource;
}

/** A transaction that is named rather than found. */
export interface ExplicitTransaction {
  /** E.g. `queryRunner.manager` of a transaction driven by hand. Default: the active transaction is looked for. */
  readonly manager?: EntityManager;
}

const own = new OwnTransactionSource();

/** Which transaction is active, and what goes beyond it. */
@Injectable()
export class Transactions {
  private readonly sources: readonly TransactionSource[];

  /**
   * @param dataSource the data source that calls without one are about
   * @param others asked in this order where our own context knows of no transaction
   */
  constructor(
    private readonly dataSource: DataSource,
    private readonly others: readonly TransactionSource[] = [],
  ) {
    this.sources = [own, ...others];
  }

  /**
   * The manager of the transaction that the calling code is in.
   *
   * @returns `undefined` when there is none
   * @throws {TransactionEndedError} in work that was started inside a transaction and not awaited before its end
   */
  active(dataSource: DataSource = this.dataSource): EntityManager | undefined {
    return this.findActive(dataSource)?.manager;
  }

  /**
   * The manager to write with: the explicit one, or that of the active transaction.
   *
   * @returns `undefined` when there is no transaction. An explicit manager that is in none is not replaced by another.
   * @throws {ForeignManagerError} for a manager of another data source
   * @throws {TransactionEndedError} see {@link active}
   */
  resolve({ manager }: ExplicitTransaction = {}): EntityManager | undefined {
    if (!manager) return this.active();
    if (dataSourceOf(manager) !== this.dataSource) throw new ForeignManagerError();
    const runner = ownRunner(manager);
    // Without a runner of its own it joins what is active, like everything else.
    if (!runner) return this.active();
    const scope = currentScope(this.dataSource);
    if (scope?.runner === runner) scope.assertActive();
    return runner.isTransactionActive ? manager : undefined;
  }

  /**
   * Runs `fn` in a transaction; inside an active one in a savepoint, which rolls back by itself when `fn` throws.
   *
   * @throws {IsolationLevelRefusedError} when a level is asked for inside an active transaction of another level
   * @throws {TransactionAbortedError} when the transaction could not be committed although `fn` succeeded
   * @throws {DataSourceNotBridgedError} when the module is not registered for the data source
   */
  run<T>(fn: (manager: EntityManager) => Promise<T>, options: RunOptions = {}): Promise<T> {
    const { dataSource = this.dataSource, isolationLevel } = options;
    return asPromise(() => {
      if (!isBridged(dataSource)) throw new DataSourceNotBridgedError();
      const manager = this.active(dataSource) ?? dataSource.manager;
      return isolationLevel ? manager.transaction(isolationLevel, fn) : manager.transaction(fn);
    });
  }

  /**
   * Runs `fn` outside of any transaction: what it writes survives a rollback. It uses another connection, and does not see
   * what the transaction has written. Whatever lives longer than a transaction (timers, connections, caches) has to be
   * created here.
   */
  outside<T>(fn: () => T): T {
    return runOutsideScopes(() => outsideSources(this.others, fn));
  }

  /**
   * Runs `fn` after the outermost transaction has been committed; never after a rollback, of a savepoint around it either.
   * The caller of the outermost transaction waits for it. What it throws is logged and nothing else.
   *
   * @throws {TransactionRequiredError} outside of a transaction
   * @throws {AfterCommitUnsupportedError} when the active transaction is another library's that cannot do it
   */
  afterCommit(fn: AfterCommitCallback, { manager }: ExplicitTransaction = {}): void {
    const scope = this.handDrivenScope(manager);
    if (scope) {
      scope.assertActive();
      scope.afterCommit.push(fn);
      return;
    }
    const found = this.findActive(this.dataSource);
    if (!found) throw new TransactionRequiredError('afterCommit()');
    if (found.source.afterCommit) {
      found.source.afterCommit(this.dataSource, fn);
      return;
    }
    const seen = this.handDrivenScope(found.manager);
    if (!seen) throw new AfterCommitUnsupportedError(found.source.name);
    seen.afterCommit.push(fn);
  }

  /** The scope of an explicit manager that is not simply the one of the active transaction. */
  private handDrivenScope(manager: EntityManager | undefined): TransactionScope | undefined {
    const runner = manager && ownRunner(manager);
    if (!runner || runner === currentScope(this.dataSource)?.runner) return undefined;
    const guard = bridgeGuard(this.dataSource);
    if (!guard) throw new DataSourceNotBridgedError();
    const scope = joinHandDriven(runner, guard);
    if (!scope) throw new TransactionRequiredError('afterCommit()');
    return scope;
  }

  private findActive(
    dataSource: DataSource,
  ): { source: TransactionSource; manager: EntityManager } | undefined {
    for (const source of this.sources) {
      const manager = source.active(dataSource);
      if (manager) return { source, manager };
    }
    return undefined;
  }
}

/** The runner that the manager was made with, as opposed to the one that the bridge lends it. */
function ownRunner(manager: EntityManager): QueryRunner | undefined {
  return Object.hasOwn(manager, 'queryRunner') ? manager.queryRunner : undefined;
}
