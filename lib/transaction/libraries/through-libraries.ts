import { Logger } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { outerTransaction, type OuterTransaction } from '../bridged-transaction';
import type { TransactionWork } from '../transaction-scope';
import { createJoiningManager } from './joining-manager';
import { inLibraryCall, type LibraryCall } from './library-call';
import type { TransactionLibrary } from './transaction-library';

const logger = new Logger('Transactions');
const warned = new WeakSet<TransactionLibrary>();

/**
 * An outer transaction that every library on the data source takes for its own:
 *
 * 1. Ask the first library for a new transaction. It calls `dataSource.transaction()`, which leads back here.
 * 2. The same with the next, inside of that.
 * 3. Open the transaction, once. Each library gets a manager that joins it.
 * 4. Run the work, with the transaction's own manager. Each library sees the real end of the transaction, and runs its
 *    hooks then.
 */
export async function throughLibraries<T>(
  libraries: readonly TransactionLibrary[],
  where: OuterTransaction,
  work: TransactionWork<T>,
): Promise<T> {
  const [library, ...others] = libraries;
  if (!library) return outerTransaction(where, work);
  const { dataSource } = where;
  let manager: EntityManager | undefined;
  const call: LibraryCall = {
    library,
    dataSource,
    taken: false,
    open(theirs) {
      library.opened?.(dataSource);
      return throughLibraries(others, suspendable(where, library), (own) => {
        manager = own;
        return theirs(createJoiningManager(dataSource));
      });
    },
  };
  try {
    return await inLibraryCall(call, () =>
      library.begin(dataSource, () => {
        if (!manager) throw new Error('It has opened no transaction');
        return work(manager);
      }),
    );
  } catch (error) {
    if (call.taken) throw error;
    if (!warned.has(library)) {
      warned.add(library);
      logger.warn(`${library.name} does not know of transactions that it has not opened: ${String(error)}`);
    }
    return throughLibraries(others, where, work);
  }
}

/** Only a library that the transaction was opened through can tell whether it runs something without it. */
function suspendable(where: OuterTransaction, library: TransactionLibrary): OuterTransaction {
  if (!('isSuspended' in library)) return where;
  const { dataSource, isSuspended } = where;
  return {
    ...where,
    isSuspended: () => library.isSuspended!(dataSource) || (isSuspended?.() ?? false),
  };
}
