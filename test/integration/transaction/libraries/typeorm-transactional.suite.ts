import {
  addTransactionalDataSource,
  deleteDataSourceByName,
  initializeTransactionalContext,
  Propagation,
  runInTransaction,
  runOnTransactionCommit,
  runOnTransactionRollback,
  type StorageDriver,
  Transactional,
} from 'typeorm-transactional';
import { waitFor } from '../../../support/wait-for';
import { Rollback } from '../fixtures';
import type { LibraryUnderTest, Run, Work } from './library-app';
import { describeLibrary } from './library-contract';

/** As applications use it. */
class Service {
  @Transactional()
  required<T>(work: Work<T>) {
    return work();
  }
  @Transactional({ connectionName: 'billing' })
  requiredInBilling<T>(work: Work<T>) {
    return work();
  }
  @Transactional({ propagation: Propagation.REQUIRES_NEW })
  requiresNew<T>(work: Work<T>) {
    return work();
  }
  @Transactional({ propagation: Propagation.MANDATORY })
  mandatory<T>(work: Work<T>) {
    return work();
  }
  @Transactional({ propagation: Propagation.NEVER })
  never<T>(work: Work<T>) {
    return work();
  }
  @Transactional({ propagation: Propagation.NOT_SUPPORTED })
  notSupported<T>(work: Work<T>) {
    return work();
  }
}

const service = new Service();
const required: Run = (work, name) =>
  name === 'billing' ? service.requiredInBilling(work) : service.required(work);

const library: LibraryUnderTest = {
  name: 'typeorm-transactional',
  imports: [],
  required,
  requiresNew: (work) => service.requiresNew(work),
  mandatory: (work) => service.mandatory(work),
  never: (work) => service.never(work),
  notSupported: (work) => service.notSupported(work),
  close: () => ['default', 'billing'].forEach((name) => deleteDataSourceByName(name)),
};

/** The tests, for one moment at which the data sources are added to the library, and one of its storage drivers. */
export function describeTypeormTransactional(
  order: Pick<LibraryUnderTest, 'createDataSource' | 'started'>,
  storageDriver: StorageDriver,
): void {
  beforeAll(() => initializeTransactionalContext({ storageDriver }));
  const app = describeLibrary({ ...library, ...order });

  test('its hooks tell of the end of transactions that others have opened', async () => {
    const told: string[] = [];
    await app()
      .dataSource()
      .transaction(async () => {
        await app().write('x');
        runOnTransactionCommit(() => told.push('committed'));
        await required(async () => {
          runOnTransactionCommit(() => told.push('committed inside'));
          await app().write('y');
        });
        await new Promise(setImmediate);
        expect(told).toEqual([]);
      });
    await waitFor('both hooks', () => told.length === 2);
    expect(told).toEqual(['committed', 'committed inside']);
    await expect(
      app()
        .dataSource()
        .transaction(async () => {
          await app().write('z');
          runOnTransactionCommit(() => told.push('never'));
          runOnTransactionRollback(() => told.push('rolled back'));
          throw new Rollback();
        }),
    ).rejects.toThrow(Rollback);
    await waitFor('the hook', () => told.length === 3);
    expect(told[2]).toBe('rolled back');
  });

  test('C03: what a savepoint was to do after the commit is forgotten when it is taken back', async () => {
    const told: string[] = [];
    await required(async () => {
      await app()
        .dataSource()
        .transaction(async () => {
          await app().write('x');
          runOnTransactionCommit(() => told.push('taken back'));
          throw new Rollback();
        })
        .catch(() => undefined);
      runOnTransactionCommit(() => told.push('committed'));
    });
    await waitFor('the hook', () => told.length > 0);
    expect(told).toEqual(['committed']);
  });

  test('Propagation.NESTED is a transaction of its own, as it is without this module', async () => {
    await expect(
      required(async () => {
        const pid = await app().write('outer');
        const nested = await runInTransaction(() => app().write('nested'), {
          propagation: Propagation.NESTED,
        });
        expect(nested).not.toBe(pid);
        throw new Rollback();
      }),
    ).rejects.toThrow(Rollback);
    expect(await app().texts()).toEqual(['nested']);
  });

  test('a transaction opened in a method that runs without one is known to the library', async () => {
    await runInTransaction(
      () =>
        app()
          .dataSource()
          .transaction(async () => {
            const pid = await app().write('plain');
            expect(await required(() => app().write('joined'))).toBe(pid);
          }),
      { propagation: Propagation.SUPPORTS },
    );
    expect(await app().texts()).toEqual(['joined', 'plain']);
  });

  test('transactions of a data source that it has forgotten go on without it', async () => {
    deleteDataSourceByName('default');
    try {
      const failing = runInTransaction(
        () =>
          app()
            .dataSource()
            .transaction(async () => {
              await app().write('lost');
              throw new Rollback();
            }),
        { connectionName: 'billing', propagation: Propagation.SUPPORTS },
      );
      await expect(failing).rejects.toThrow(Rollback);
      expect(await app().texts()).toEqual([]);
    } finally {
      addTransactionalDataSource({ name: 'default', dataSource: app().dataSource(), patch: false });
    }
  });
}
