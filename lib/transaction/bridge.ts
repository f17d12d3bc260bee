import { DataSource, EntityManager, QueryBuilder, SelectQueryBuilder, type QueryRunner } from 'typeorm';
import { checkBridge } from './bridge-check';
import { joinedRunner, transactionInBridge } from './bridged-manager';
import { dataSourceOf } from './data-source-of';
import type { TransactionLibrary } from './libraries/transaction-library';
import { typeormTransactional } from './libraries/typeorm-transactional';
import { PrototypePatch } from './prototype-patch';
import { borrowedRunner } from './runner-stand-in';
import type { TransactionGuard } from './transaction-guard';
import type { TransactionSource } from './transaction-source';
import type { IsolationLevel, TransactionWork } from './transaction-scope';

interface Registration {
  readonly guard: TransactionGuard;
  /** See the option `transactionSources`. */
  readonly sources: readonly TransactionSource[];
  /** Those that may take part; each says whether it does. */
  readonly libraries: Set<TransactionLibrary>;
  count: number;
}

const registrations = new Map<DataSource, Registration>();
/** Transactions under way. The prototypes stay as they are until the last is over, or its rest would not join it. */
let open = 0;

/**
 * Makes everything that runs inside a transaction of this data source join it: whatever was made from it without a query
 * runner of its own uses the runner of the active transaction. TypeORM has no seam for this, so a few members of its
 * prototypes are replaced. It has to be the prototypes: a custom repository made by
 * `super(Entity, dataSource.createEntityManager())` exists before any module of ours.
 *
 * Registered twice, it has to be undone twice. For data sources that are not registered nothing changes.
 *
 * @returns undoes this registration. With the last one, and with the last open transaction, the prototypes are exactly
 *   as they were before.
 * @throws {BridgeIncompatibleError} when this TypeORM does not work as expected; nothing is changed then
 */
export function installBridge(
  dataSource: DataSource,
  guard: TransactionGuard,
  sources: readonly TransactionSource[] = [],
): () => void {
  const registration = registrations.get(dataSource) ?? {
    guard,
    sources,
    libraries: new Set([typeormTransactional]),
    count: 0,
  };
  registration.count += 1;
  registrations.set(dataSource, registration);
  let undone = false;
  const undo = () => {
    if (undone) return;
    undone = true;
    registration.count -= 1;
    if (registration.count === 0) registrations.delete(dataSource);
    removeUnused();
  };
  try {
    for (const patch of patches) patch.apply();
    checkBridge(dataSource);
  } catch (error) {
    undo();
    throw error;
  }
  return undo;
}

/** Whether transactions of this data source are joined by what runs inside them. */
export function isBridged(dataSource: DataSource): boolean {
  return registrations.has(dataSource);
}

/** The guard that the data source was registered with. */
export function bridgeGuard(dataSource: DataSource): TransactionGuard | undefined {
  return registrations.get(dataSource)?.guard;
}

/** Who else knows of transactions on the data source. */
export function bridgeSources(dataSource: DataSource): readonly TransactionSource[] {
  return registrations.get(dataSource)?.sources ?? [];
}

/**
 * Lets a library take part in the transactions of a data source.
 *
 * @returns undoes it
 */
export function addLibrary(dataSource: DataSource, library: TransactionLibrary): () => void {
  const libraries = registrations.get(dataSource)?.libraries;
  libraries?.add(library);
  return () => void libraries?.delete(library);
}

function removeUnused(): void {
  if (registrations.size > 0 || open > 0) return;
  for (const patch of [...patches].reverse()) patch.revert();
}

type Method<This, Args extends unknown[], Result> = (this: This, ...args: Args) => Result;

/** Without its own runner a manager has that of the active transaction. What is assigned stays the instance's own. */
const managerRunner = new PrototypePatch(EntityManager.prototype, 'queryRunner', (before) => ({
  configurable: true,
  get(this: EntityManager): QueryRunner | undefined {
    return joinedRunner(dataSourceOf(this)) ?? (before?.get?.call(this) as QueryRunner | undefined);
  },
  set(this: EntityManager, value: QueryRunner | undefined) {
    Object.defineProperty(this, 'queryRunner', {
      value,
      configurable: true,
      enumerable: true,
      writable: true,
    });
  },
}));

type Transaction = Method<
  EntityManager,
  [IsolationLevel | TransactionWork<unknown>, TransactionWork<unknown>?],
  Promise<unknown>
>;

const managerTransaction = method<Transaction>(
  EntityManager.prototype,
  'transaction',
  (original) =>
    async function (this, first, second) {
      const dataSource = dataSourceOf(this);
      const registration = registrations.get(dataSource);
      const isolationLevel = typeof first === 'string' ? first : undefined;
      const work = typeof first === 'function' ? first : second;
      // A wrong call is TypeORM's to answer.
      if (!registration || !work) return original.call(this, first, second);
      open += 1;
      try {
        const libraries = [...registration.libraries].filter((library) => library.worksOn(dataSource));
        return await transactionInBridge(
          this,
          { guard: registration.guard, libraries },
          isolationLevel,
          work,
        );
      } finally {
        open -= 1;
        removeUnused();
      }
    },
);

type Query = Method<DataSource, [string, unknown[]?, QueryRunner?], Promise<unknown>>;

const dataSourceQuery = method<Query>(
  DataSource.prototype,
  'query',
  (original) =>
    function (this, sql, parameters, runner) {
      return original.call(this, sql, parameters, runner ?? joinedRunner(this));
    },
);

type ObtainRunner = Method<{ dataSource: DataSource; queryRunner?: QueryRunner }, [], QueryRunner>;

/** Asked when the statement is sent and not when the builder is made, so one made outside joins as well. */
const obtainRunner = (original: ObtainRunner): ObtainRunner =>
  function (this) {
    const joined = this.queryRunner ? undefined : joinedRunner(dataSourceOf(this));
    return joined ? borrowedRunner(joined) : original.call(this);
  };

const patches: readonly PrototypePatch[] = [
  managerRunner,
  managerTransaction,
  dataSourceQuery,
  method<ObtainRunner>(QueryBuilder.prototype, 'obtainQueryRunner', obtainRunner),
  method<ObtainRunner>(SelectQueryBuilder.prototype, 'obtainQueryRunner', obtainRunner),
];

function method<M extends (...args: never[]) => unknown>(
  target: object,
  key: string,
  replace: (original: M) => M,
): PrototypePatch {
  return new PrototypePatch(target, key, (before) => ({ ...before, value: replace(before?.value as M) }));
}
