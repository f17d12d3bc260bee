import {
  BaseEntity,
  Column,
  Entity,
  ManyToOne,
  OneToMany,
  PrimaryGeneratedColumn,
  Tree,
  TreeChildren,
  TreeParent,
} from 'typeorm';
import { DataSource, type DataSourceOptions, type Relation } from 'typeorm';
import { PostgresTransactionGuard } from '../../../lib/persistence/postgres/transaction-status';
import { installBridge } from '../../../lib/transaction/bridge';
import { createTestDatabase, type TestDatabase } from '../../support/test-database';
import { waitFor } from '../../support/wait-for';

@Entity('notes')
export class Note {
  @PrimaryGeneratedColumn() id!: number;
  @Column() text!: string;
  @ManyToOne(() => Folder, (folder) => folder.notes, { nullable: true }) folder?: Relation<Folder>;
}

@Entity('folders')
export class Folder {
  @PrimaryGeneratedColumn() id!: number;
  @Column() name!: string;
  @OneToMany(() => Note, (note) => note.folder) notes!: Promise<Note[]>;
}

@Entity('active_notes')
export class ActiveNote extends BaseEntity {
  @PrimaryGeneratedColumn() id!: number;
  @Column() text!: string;
}

@Entity('chapters')
@Tree('closure-table')
export class Chapter {
  @PrimaryGeneratedColumn() id!: number;
  @Column() title!: string;
  @TreeChildren() children!: Chapter[];
  @TreeParent() parent?: Chapter;
}

export const ENTITIES = [Note, Folder, ActiveNote, Chapter];

/** A database of its own with a bridged data source on it; the database is looked at through connections of its own. */
export interface Bench {
  readonly database: TestDatabase;
  readonly dataSource: DataSource;
  readonly undo: () => void;
  /** Committed notes in the order of their insertion. */
  texts(): Promise<string[]>;
  clear(): Promise<void>;
  close(): Promise<void>;
}

export async function createBench(
  options: Partial<DataSourceOptions> & { poolSize?: number } = {},
): Promise<Bench> {
  const database = await createTestDatabase({ prefix: 'transaction' });
  const dataSource = await new DataSource({
    type: 'postgres',
    url: database.url,
    entities: ENTITIES,
    synchronize: true,
    poolSize: 5,
    extra: { connectionTimeoutMillis: 10_000 },
    ...options,
  } as DataSourceOptions).initialize();
  const undo = installBridge(dataSource, new PostgresTransactionGuard());
  return {
    database,
    dataSource,
    undo,
    texts: async () =>
      (await database.query<{ text: string }>('SELECT text FROM notes ORDER BY id')).map((row) => row.text),
    clear: async () => {
      await database.query(
        'TRUNCATE notes, folders, active_notes, chapters, chapters_closure RESTART IDENTITY',
      );
    },
    close: async () => {
      undo();
      if (dataSource.isInitialized) await dataSource.destroy();
      await database.close();
    },
  };
}

/** Thrown to roll back. */
export class Rollback extends Error {}

/** Something to wait for that the test decides on. */
export interface Signal {
  readonly promise: Promise<void>;
  give(): void;
}

export function signal(): Signal {
  let give!: () => void;
  const promise = new Promise<void>((resolve) => (give = resolve));
  return { promise, give };
}

/**
 * No connection may go back to the pool with a transaction on it: it would keep its locks for ever. Those that are closed
 * instead are gone soon.
 */
export async function expectNothingOpen(bench: Bench): Promise<void> {
  await waitFor('all transactions to be over', async () => {
    const open = await bench.database.query(
      `SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'`,
    );
    return open.length === 0;
  });
}
