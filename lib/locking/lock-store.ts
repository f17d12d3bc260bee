import type { DataSource, QueryRunner } from 'typeorm';
import type { Dialect } from '../persistence/dialect';
import type { LockRow } from '../persistence/lock-statements';
import { InboxOutboxSchemaError } from '../persistence/schema.error';
import { within } from '../timing/within';
import { ownTransaction } from '../transaction/own-work';
import { Deadline } from './deadline';
import { LockUnansweredError } from './lock-unanswered.error';

export interface LockStoreDependencies {
  readonly dataSource: DataSource;
  readonly dialect: Pick<Dialect, 'lock' | 'isRetryable' | 'existingColumns' | 'family'>;
  /**
   * Milliseconds that one statement may take on the server. Default 5,000. Twice as long is waited here for the connection
   * and the answer, since a server that is cut off ends nothing.
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
 * Nobody waits for ever: a statement without an answer is an error too. What it may have taken all the same is given back
 * when the answer comes.
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
      return await this.answer(
        name,
        this.grant(name, owner, atMostFor, async (runner) => {
          const row = await this.use.dialect.lock.take(runner, name, owner, atMostFor);
          // Thrown, so that the transaction is rolled back: nothing was written, or a statement in it has failed.
          if (!row) throw new NotObtained();
          return row;
        }),
        (late) => late && void this.release(late).catch(() => undefined),
      );
    } catch (error) {
      if (error instanceof NotObtained || this.use.dialect.isRetryable(error)) return undefined;
      throw await this.explained(error);
    }
  }

  /** @returns the new grant, or `undefined` when the lock is lost */
  extend({ name, owner, fence }: Grant, atMostFor: number): Promise<Grant | undefined> {
    return this.answer(
      name,
      this.grant(name, owner, atMostFor, (runner) =>
        this.use.dialect.lock.extend(runner, name, owner, fence, atMostFor),
      ),
    );
  }

  /** @returns whether it was held until now */
  release({ name, owner, fence }: Grant, atLeastFor = 0): Promise<boolean> {
    return this.answer(
      name,
      this.inTransaction((runner) => this.use.dialect.lock.release(runner, name, owner, fence, atLeastFor)),
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
    return row && { name, owner, ...row, deadline: deadline(atMostFor) };
  }

  private inTransaction<T>(work: (runner: QueryRunner) => Promise<T>): Promise<T> {
    return ownTransaction(this.use.dataSource, this.timeouts, work);
  }

  /** @param late what to do with an answer for which nobody waits any more */
  private async answer<T>(
    name: string,
    work: Promise<T>,
    late: (result: T) => void = () => undefined,
  ): Promise<T> {
    const patience = 2 * this.timeouts.statementTimeout;
    if (await within(patience, work)) return work;
    work.then(late, () => undefined);
    throw new LockUnansweredError(name, patience);
  }

  /** Without its table no lock is ever held by anybody: that must not look like one more error that will pass. */
  private async explained(error: unknown): Promise<unknown> {
    if (error instanceof LockUnansweredError) return error;
    try {
      const { dialect } = this.use;
      const existing = await this.inTransaction((runner) => dialect.existingColumns(runner));
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

class NotObtained extends Error {}
