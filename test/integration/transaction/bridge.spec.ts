import { DataSource, EntityManager, QueryBuilder, SelectQueryBuilder, type QueryRunner } from 'typeorm';
import { PostgresTransactionGuard } from '../../../lib/persistence/postgres/transaction-status';
import { installBridge, isBridged } from '../../../lib/transaction/bridge';
import { BridgeIncompatibleError } from '../../../lib/transaction/bridge-incompatible.error';
import { createBench, Note, Rollback, signal, type Bench } from './fixtures';

const PROTOTYPES = [
  EntityManager.prototype,
  DataSource.prototype,
  QueryBuilder.prototype,
  SelectQueryBuilder.prototype,
];
const snapshot = () => PROTOTYPES.map((prototype) => Object.getOwnPropertyDescriptors(prototype));
const guard = new PostgresTransactionGuard();

describe('the bridge', () => {
  const before = snapshot();
  let bench: Bench;
  let dataSource: DataSource;

  beforeAll(async () => {
    bench = await createBench();
    bench.undo();
    dataSource = bench.dataSource;
  });
  afterAll(() => bench?.close());
  beforeEach(() => bench.clear());
  afterEach(() => expect(snapshot()).toEqual(before));

  const save = () => dataSource.getRepository(Note).save({ text: 'x' });
  /** Whether a repository inside a transaction is part of it. */
  const joins = async (source = dataSource) => {
    await bench.clear();
    const rolledBack = source.transaction(async () => {
      await source.getRepository(Note).save({ text: 'x' });
      throw new Rollback();
    });
    await expect(rolledBack).rejects.toThrow(Rollback);
    return (await bench.texts()).length === 0;
  };

  it('leaves everything exactly as it was after the last undo, also property by property', async () => {
    const undo = installBridge(dataSource, guard);
    expect(snapshot()).not.toEqual(before);
    expect(await joins()).toBe(true);
    undo();
    const after = snapshot();
    after.forEach((descriptors, i) => {
      expect(Reflect.ownKeys(descriptors)).toEqual(Reflect.ownKeys(before[i]!));
      for (const [key, descriptor] of Object.entries(descriptors)) {
        const original = (before[i] as Record<string, PropertyDescriptor>)[key];
        expect({ key, ...descriptor }).toStrictEqual({ key, ...original });
        expect(descriptor.value).toBe(original?.value);
      }
    });
    expect(isBridged(dataSource)).toBe(false);
    expect(await joins()).toBe(false);
  });

  it('is counted: it stays until the last of several is undone, and undoing one twice counts once', async () => {
    const first = installBridge(dataSource, guard);
    const second = installBridge(dataSource, guard);
    first();
    first();
    expect(await joins()).toBe(true);
    second();
    expect(await joins()).toBe(false);
  });

  it('changes nothing for data sources that are not registered', async () => {
    const other = await new DataSource(dataSource.options).initialize();
    const undo = installBridge(dataSource, guard);
    try {
      expect(await joins(other)).toBe(false);
      await dataSource.transaction(async () => {
        expect(dataSource.manager.queryRunner).toBeDefined();
        expect(other.manager.queryRunner).toBeUndefined();
      });
    } finally {
      undo();
      await other.destroy();
    }
  });

  it('leaves managers with a runner of their own alone, also those made before the undo', async () => {
    const undo = installBridge(dataSource, guard);
    const runner = dataSource.createQueryRunner();
    await dataSource.transaction(async (manager) => {
      expect(runner.manager.queryRunner).toBe(runner);
      expect(manager.queryRunner).toBe(dataSource.manager.queryRunner);
    });
    undo();
    expect(runner.manager.queryRunner).toBe(runner);
    await runner.release();
  });

  it('undone during a transaction, it stays until that transaction is over', async () => {
    const undo = installBridge(dataSource, guard);
    const undone = signal();
    const failed = dataSource.transaction(async () => {
      await undone.promise;
      await save();
      throw new Rollback();
    });
    undo();
    undone.give();
    await expect(failed).rejects.toThrow(Rollback);
    expect(await bench.texts()).toEqual([]);
  });

  it('never takes off what somebody else put on top, and works again below and above it', async () => {
    const calls: string[] = [];
    const undo = installBridge(dataSource, guard);
    const ours = DataSource.prototype.query;
    const theirs = function (this: DataSource, sql: string, parameters?: never, runner?: QueryRunner) {
      calls.push(sql);
      return ours.call(this, sql, parameters, runner);
    };
    DataSource.prototype.query = theirs as typeof ours;
    try {
      undo();
      expect(DataSource.prototype.query).toBe(theirs);
      await dataSource.query('SELECT 1'); // theirs leads through ours, which passes it on
      const again = installBridge(dataSource, guard);
      const failed = dataSource.transaction(async () => {
        await dataSource.query(`INSERT INTO notes (text) VALUES ('x')`);
        throw new Rollback();
      });
      await expect(failed).rejects.toThrow(Rollback);
      expect(await bench.texts()).toEqual([]);
      again();
      expect(DataSource.prototype.query).toBe(theirs);
      expect(calls.filter((sql) => !sql.includes('Not sent'))).toEqual([
        'SELECT 1',
        `INSERT INTO notes (text) VALUES ('x')`,
      ]);
    } finally {
      DataSource.prototype.query = ours; // they put back what they had found
      installBridge(dataSource, guard)();
    }
  });

  it('refuses a TypeORM that does not work as it expects, names the version, and changes nothing', () => {
    const original = Object.getOwnPropertyDescriptor(DataSource.prototype, 'createEntityManager')!;
    // As if a later TypeORM gave each manager an own property for its runner.
    DataSource.prototype.createEntityManager = function (this: DataSource, runner?: QueryRunner) {
      const manager = (original.value as typeof DataSource.prototype.createEntityManager).call(this, runner);
      if (!runner) Object.assign(manager, { queryRunner: undefined });
      return manager;
    };
    try {
      expect(() => installBridge(dataSource, guard)).toThrow(BridgeIncompatibleError);
      expect(() => installBridge(dataSource, guard)).toThrow(
        /TypeORM \d+\.\d+\.\d+: a manager does not take/,
      );
      expect(isBridged(dataSource)).toBe(false);
    } finally {
      Object.defineProperty(DataSource.prototype, 'createEntityManager', original);
    }
  });

  it('refuses a data source of another copy of typeorm', () => {
    const stranger = Object.create(null) as DataSource;
    expect(() => installBridge(stranger, guard)).toThrow(/another copy of typeorm/);
  });
});
