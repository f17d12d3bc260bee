import type { QueryRunner } from 'typeorm';

export interface LockRow {
  /** Grows with every take-over; decimal text, since it may exceed 2^53. */
  readonly fence: string;
  readonly lockedUntil: Date;
}

/** The statements of a ShedLock-style lock table, on the database's clock. Durations are milliseconds. */
export interface LockStatements {
  /** Whether a take could succeed now: one read, so that whoever only looks leaves nothing behind in the table. */
  isFree(runner: QueryRunner, name: string): Promise<boolean>;

  /** Inserts the row, or takes it over where its time has run out. @returns `undefined` when somebody else holds it */
  take(runner: QueryRunner, name: string, owner: string, atMostFor: number): Promise<LockRow | undefined>;

  /** Only for the holder, and only while the lock has not run out. @returns `undefined` when it is lost */
  extend(
    runner: QueryRunner,
    name: string,
    owner: string,
    fence: string,
    atMostFor: number,
  ): Promise<LockRow | undefined>;

  /** Sets the end to the later of now and `locked_at + atLeastFor`, only for the holder. @returns whether it was held */
  release(
    runner: QueryRunner,
    name: string,
    owner: string,
    fence: string,
    atLeastFor: number,
  ): Promise<boolean>;
}
