import { setTimeout as delay } from 'node:timers/promises';
import type { DataSource, QueryRunner } from 'typeorm';
import type { Dialect } from '../persistence/dialect';
import type { LockRow } from '../persistence/lock-statements';
import { InboxOutboxSchemaError } from '../persistence/schema.error';
import { ownRead, ownTransaction } from '../transaction/own-work';
import { DatabaseUnansweredError } from '../transaction/unanswered.error';
import { Deadline } from './deadline';
import { LockUnansweredError } from './lock-unanswered.error';

export interface LockStoreDependencies {
  readonly dataSource: DataSource;
  readonly dialect: Pick<
    Dialect,
    'lock' | 'isRetryable' | 'isConnectionFault' | 'existingColumns' | 'family'
  >;
  /**
   * Milliseconds that one statement may take on the server; three times as long is waited for the connection and the answer.
   * Default 3,000, so that of the renewals of a lease of 30 s one may hang and the next still comes in time.
   */
  readonly statementTimeout?: number;
}

/** A lock as the database granted it, with its end as this process may rely on it. */
export interface Grant {
  readonly name: string;
  readonly owner: string;
  readonly fence: string;
  /** On the database's clock. */
  readonly lockedUntil: Date;
  readonly deadline: Deadline;
}

/**
 * The lock table: each statement in a short transaction of its own, never in the caller's. A serialization failure or a
 * deadlock means "not obtained"; any other error is an error and never "not obtained".
 *
 * Nobody waits for ever: a statement without an answer is an error too, and its connection is closed. A lock that was taken
 * all the same, because only the answer of the COMMIT was lost, is given back.
 */
export class LockStore {
  private readonly timeouts: { statementTimeout: number; lockTimeout: number };

  constructor(private readonly use: LockStoreDependencies) {
    const { statementTimeout = 3_000 } = use;
    this.timeouts = { statementTimeout, lockTimeout: statementTimeout };
  }

  /**
   * @returns `undefined` when somebody else holds it
   * @throws {LockUnansweredError}
   * @throws {InboxOutboxSchemaError} when there is no lock table
   */
  async take(name: string, owner: string, atMostFor: number): Promise<Grant | undefined> {
    const { dialect } = this.use;
    const deadline = Deadline.clock();
    let grant: Grant | undefined;
    try {
      await this.inTransaction(name, async (runner) => {
        const row = await dialect.lock.take(runner, name, owner, atMostFor);
        // Thrown, so that the transaction is rolled back: nothing was written, or a statement in it has failed.
        if (!row) throw new NotObtained();
        grant = grantOf(name, owner, row, deadline(atMostFor));
      });
      return grant;
    } catch (error) {
      if (error instanceof NotObtained || dialect.isRetryable(error)) return undefined;
      if (!dialect.isConnectionFault(error)) throw await this.explained(error);
      if (grant) void this.giveBackUnanswered(grant, atMostFor);
      throw error;
    }
  }

  /**
   * Whether a {@link take} could succeed now.
   *
   * @throws as `take`
   */
  async isFree(name: string): Promise<boolean> {
    const { dataSource, dialect } = this.use;
    try {
      return await ownRead(dataSource, this.timeouts, (runner) => dialect.lock.isFree(runner, name));
    } catch (error) {
      if (dialect.isRetryable(error)) return false;
      if (!dialect.isConnectionFault(error)) throw await this.explained(error);
      throw error instanceof DatabaseUnansweredError ? new LockUnansweredError(name, error) : error;
    }
  }

  /**
   * @returns the new grant, or `undefined` when the lock is lost
   * @throws {LockUnansweredError}
   */
  async extend({ name, owner, fence }: Grant, atMostFor: number): Promise<Grant | undefined> {
    const deadline = Deadline.clock();
    const row = await this.inTransaction(name, (runner) =>
      this.use.dialect.lock.extend(runner, name, owner, fence, atMostFor),
    );
    return row && grantOf(name, owner, row, deadline(atMostFor));
  }

  /**
   * @returns whether it was held until now
   * @throws {LockUnansweredError}
   */
  release({ name, owner, fence }: Grant, atLeastFor = 0): Promise<boolean> {
    return this.inTransaction(name, (runner) =>
      this.use.dialect.lock.release(runner, name, owner, fence, atLeastFor),
    );
  }

  private async inTransaction<T>(name: string, work: (runner: QueryRunner) => Promise<T>): Promise<T> {
    try {
      return await ownTransaction(this.use.dataSource, this.timeouts, work);
    } catch (error) {
      throw error instanceof DatabaseUnansweredError ? new LockUnansweredError(name, error) : error;
    }
  }

  /**
   * The connection was lost at the COMMIT: the lock is taken, and nobody knows that he has it; or it is not, or not yet. The
   * server ends a transaction that has been idle for the statement timeout, so by then it is certain.
   */
  private async giveBackUnanswered(grant: Grant, atMostFor: number): Promise<void> {
    const { statementTimeout } = this.timeouts;
    const certain = performance.now() + statementTimeout;
    const ranOut = performance.now() + atMostFor;
    while (performance.now() < ranOut && this.use.dataSource.isInitialized) {
      const asked = performance.now();
      try {
        if ((await this.release(grant)) || asked > certain) return;
      } catch {
        // The database is still away.
      }
      await delay(statementTimeout / 2, undefined, { ref: false });
    }
  }

  /** Without its table no lock is ever held by anybody: that must not look like one more error that will pass. */
  private async explained(error: unknown): Promise<unknown> {
    try {
      const { dialect, dataSource } = this.use;
      const existing = await ownTransaction(dataSource, this.timeouts, (runner) =>
        dialect.existingColumns(runner),
      );
      const columns = existing.get('lock') ?? new Set();
      if (columns.has('fence')) return error;
      const problem = columns.size > 0 ? 'has no column "fence"' : 'does not exist';
      return Object.assign(
        new InboxOutboxSchemaError(
          [`the lock table (option lockTable) ${problem}`],
          `Nobody can hold a lock. Remedy: the exported TypeORM migration, or the SQL file sql/${dialect.family}.sql of this package.`,
        ),
        { cause: error },
      );
    } catch {
      return error;
    }
  }
}

function grantOf(name: string, owner: string, row: LockRow, deadline: Deadline): Grant {
  return { name, owner, ...row, deadline };
}

class NotObtained extends Error {}
