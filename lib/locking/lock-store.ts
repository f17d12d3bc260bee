import type { DataSource, QueryRunner } from 'typeorm';
import type { Dialect } from '../persistence/dialect';
import type { LockRow } from '../persistence/lock-statements';
import { ownTransaction } from '../transaction/own-work';
import { Deadline } from './deadline';

export interface LockStoreDependencies {
  readonly dataSource: DataSource;
  readonly dialect: Pick<Dialect, 'lock' | 'isRetryable'>;
  /** Milliseconds that one statement may take on the server. Default 5,000. */
  readonly statementTimeout?: number;
}

/** A lock as the database granted it, with its end as this process may rely on it. */
export interface Grant {
  readonly name: string;
  readonly owner: string;
  readonly fence: string;
  readonly deadline: Deadline;
}

/**
 * The lock table: each statement in a short transaction of its own, never in the caller's. A serialization failure or a
 * deadlock means "not obtained"; any other error is an error and never "not obtained".
 */
export class LockStore {
  private readonly timeouts: { statementTimeout: number; lockTimeout: number };

  constructor(private readonly use: LockStoreDependencies) {
    const { statementTimeout = 5_000 } = use;
    this.timeouts = { statementTimeout, lockTimeout: statementTimeout };
  }

  /** @returns `undefined` when somebody else holds it */
  async take(name: string, owner: string, atMostFor: number): Promise<Grant | undefined> {
    try {
      return await this.grant(name, owner, atMostFor, async (runner) => {
        const row = await this.use.dialect.lock.take(runner, name, owner, atMostFor);
        // Thrown, so that the transaction is rolled back: nothing was written, or a statement in it has failed.
        if (!row) throw new NotObtained();
        return row;
      });
    } catch (error) {
      if (error instanceof NotObtained || this.use.dialect.isRetryable(error)) return undefined;
      throw error;
    }
  }

  /** @returns the new grant, or `undefined` when the lock is lost */
  extend({ name, owner, fence }: Grant, atMostFor: number): Promise<Grant | undefined> {
    return this.grant(name, owner, atMostFor, (runner) =>
      this.use.dialect.lock.extend(runner, name, owner, fence, atMostFor),
    );
  }

  /** @returns whether it was held until now */
  release({ name, owner, fence }: Grant, atLeastFor = 0): Promise<boolean> {
    return this.inTransaction((runner) =>
      this.use.dialect.lock.release(runner, name, owner, fence, atLeastFor),
    );
  }

  private async grant<Row extends LockRow | undefined>(
    name: string,
    owner: string,
    atMostFor: number,
    statement: (runner: QueryRunner) => Promise<Row>,
  ): Promise<Grant | undefined> {
    const deadline = Deadline.clock();
    const row = await this.inTransaction(statement);
    return row && { name, owner, fence: row.fence, deadline: deadline(atMostFor) };
  }

  private inTransaction<T>(work: (runner: QueryRunner) => Promise<T>): Promise<T> {
    return ownTransaction(this.use.dataSource, this.timeouts, work);
  }
}

class NotObtained extends Error {}
