import type { DataSource, EntityManager } from 'typeorm';

const joining = new WeakSet<EntityManager>();

/**
 * A manager for a library to keep as the one of its transaction. It has no runner of its own, so it always joins what is
 * active where it is used: nothing outside of the transaction, and a refusal after its end. The transaction's own manager,
 * kept in the library's context, would write into the transaction from `Transactions.outside()` too.
 */
export function createJoiningManager(dataSource: DataSource): EntityManager {
  const manager = dataSource.createEntityManager();
  joining.add(manager);
  return manager;
}

export function isJoiningManager(manager: EntityManager): boolean {
  return joining.has(manager);
}
