import type { DataSource, EntityManager } from 'typeorm';
import { currentScope } from './transaction-context';
import { TransactionRequiredError } from './transaction-required.error';
import type { AfterCommitCallback, TransactionSource } from './transaction-source';

/** Transactions that the bridge has opened. */
export class OwnTransactionSource implements TransactionSource {
  readonly name = 'nestjs-inbox-outbox';

  active(dataSource: DataSource): EntityManager | undefined {
    const scope = currentScope(dataSource);
    scope?.assertActive();
    return scope?.manager;
  }

  afterCommit(dataSource: DataSource, fn: AfterCommitCallback): void {
    const scope = currentScope(dataSource);
    if (!scope) throw new TransactionRequiredError('afterCommit()');
    scope.assertActive();
    scope.afterCommit.push(fn);
  }
}
