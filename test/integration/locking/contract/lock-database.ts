import type { DataSource } from 'typeorm';
import type { Dialect } from '../../../../lib/persistence/dialect';
import type { LockRow } from '../lock-row';

/** A connection of the module to the database under test: what one process has. */
export interface LockConnection {
  readonly dataSource: DataSource;
  readonly dialect: Dialect;
  close(): Promise<void>;
}

export interface ConnectOptions {
  /** Default isolation level of the session. */
  readonly serializable?: boolean;
  /** Through a wire that `hold()` cuts. */
  readonly wire?: boolean;
}

/** ShedLock's own four statements, by database time. Durations are milliseconds; each says whether it changed one row. */
export interface ShedLockStatements {
  insert(name: string, owner: string, atMost: number): Promise<boolean>;
  update(name: string, owner: string, atMost: number): Promise<boolean>;
  extend(name: string, owner: string, atMost: number): Promise<boolean>;
  unlock(name: string, owner: string, atLeast: number): Promise<boolean>;
}

/**
 * A database on which the contract is tested: a server of its own, since one case restarts it. One implementation for each
 * database family.
 */
export interface LockDatabase {
  readonly shedLock: ShedLockStatements;
  /** Environment with which fixtures/lock-process.ts connects to it. */
  readonly env: Record<string, string>;
  connect(options?: ConnectOptions): Promise<LockConnection>;
  state(name: string): Promise<LockRow | undefined>;
  /** Lets time pass for one lock, without waiting for it. Milliseconds. */
  elapse(name: string, time: number): Promise<void>;
  /** By hand, without any condition. */
  deleteRow(name: string): Promise<void>;
  clear(): Promise<void>;
  /** What is sent through the wire arrives no more, and nobody is told. */
  hold(): void;
  resume(): void;
  restart(): Promise<void>;
  close(): Promise<void>;
}
