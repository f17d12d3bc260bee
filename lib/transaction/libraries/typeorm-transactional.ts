import type { EventEmitter } from 'node:events';
import type { DataSource } from 'typeorm';
import { isJoiningManager } from './joining-manager';
import type { TransactionLibrary } from './transaction-library';

/** Set on each data source by `addTransactionalDataSource()`: the name that the library knows it by. */
const NAME = '@transactional/data-source';

/** What is used of the library, an optional peer. */
interface Api {
  runInTransaction<T>(
    work: () => Promise<T>,
    options: { connectionName: string; propagation: 'REQUIRES_NEW' },
  ): Promise<T>;
}

/** What is used of its insides: there is no other way to see whether a hook context is new. */
interface Insides {
  getTransactionalContext(): object;
  getHookInContext(context: object): EventEmitter | undefined;
}

/** It is loaded when a data source has been added to it, so it is never imported where it is absent or not used. */
let loaded: { api: Api; insides: Insides } | undefined | null;

function load(): { api: Api; insides: Insides } | undefined {
  if (loaded === undefined) {
    try {
      /* eslint-disable @typescript-eslint/no-require-imports -- an optional peer, which may be absent */
      loaded = {
        api: require('typeorm-transactional') as Api,
        insides: require('typeorm-transactional/dist/common') as Insides,
      };
      /* eslint-enable @typescript-eslint/no-require-imports */
    } catch {
      // The data source was added to a copy that cannot be reached from here.
      loaded = null;
    }
  }
  return loaded ?? undefined;
}

/** Of each transaction that was opened through the library, its hook context: the emitter that tells of the end. */
const hooksOfTransactions = new WeakSet<EventEmitter>();

function currentHook(): EventEmitter | undefined {
  const insides = load()?.insides;
  try {
    return insides?.getHookInContext(insides.getTransactionalContext());
  } catch {
    // initializeTransactionalContext() has not been called.
    return undefined;
  }
}

/**
 * `@Transactional()` of typeorm-transactional 0.5. It makes a hook context for each transaction that it opens, right before it
 * calls `dataSource.transaction()`, and for each method that is to run without one. So a hook context in which no
 * transaction has been opened yet tells of either, and the manager in the library's context of which.
 */
export const typeormTransactional: TransactionLibrary = {
  name: 'typeorm-transactional',

  worksOn: (dataSource) => NAME in dataSource && load() !== undefined,

  // The library replaces the property on the data source with the manager of its context.
  isActive: (dataSource) => isJoiningManager(dataSource.manager),

  isOpening() {
    const hook = currentHook();
    return hook !== undefined && !hooksOfTransactions.has(hook);
  },

  begin(dataSource, work) {
    const connectionName = (dataSource as DataSource & { [NAME]: string })[NAME];
    return load()!.api.runInTransaction(work, { connectionName, propagation: 'REQUIRES_NEW' });
  },

  opened() {
    const hook = currentHook();
    if (hook) hooksOfTransactions.add(hook);
  },

  isSuspended: (dataSource) =>
    typeormTransactional.isOpening!(dataSource) && !typeormTransactional.isActive(dataSource),

  savepoint() {
    const hook = currentHook();
    const before = new Set(hook?.rawListeners('commit'));
    return () => {
      for (const listener of hook?.rawListeners('commit') ?? []) {
        if (!before.has(listener)) hook?.off('commit', listener as () => void);
      }
    };
  },
};
