import { AsyncLocalStorage } from 'node:async_hooks';
import type { DataSource, EntityManager } from 'typeorm';
import { TransactionRequiredError, type TransactionSource } from '../../../../lib';
import { runOutside } from '../../../../lib/transaction/own-work';
import { Rollback } from '../fixtures';
import { handler, LibraryApp, Note } from './library-app';

/** A library of the application's own, which drives query runners by hand and knows their managers. */
class HandMade implements TransactionSource {
  readonly name = 'hand-made';
  private readonly storage = new AsyncLocalStorage<EntityManager | undefined>();

  async run<T>(dataSource: DataSource, work: (manager: EntityManager) => Promise<T>): Promise<T> {
    const runner = dataSource.createQueryRunner();
    await runner.startTransaction();
    try {
      const result = await this.storage.run(runner.manager, () => work(runner.manager));
      await runner.commitTransaction();
      return result;
    } catch (error) {
      await runner.rollbackTransaction();
      throw error;
    } finally {
      await runner.release();
    }
  }

  active(dataSource: DataSource): EntityManager | undefined {
    const manager = this.storage.getStore();
    return manager?.dataSource === dataSource ? manager : undefined;
  }

  outside<T>(fn: () => T): T {
    return this.storage.run(undefined, fn);
  }
}

describe('A transaction source of the application', () => {
  const library = new HandMade();
  let app: LibraryApp;
  beforeAll(async () => {
    app = await LibraryApp.start({
      name: library.name,
      imports: [],
      transactionSources: [library],
      required: (work, name) => library.run(app.dataSource(name), work),
      requiresNew: (work, name) => library.run(app.dataSource(name), work),
    });
  });
  afterAll(() => app.close());
  beforeEach(() => app.reset());

  const run = <T>(work: (manager: EntityManager) => Promise<T>) => library.run(app.dataSource(), work);

  test('G1: publish() joins, and the dispatcher is woken after the commit', async () => {
    await run(async (manager) => {
      await manager.save(Note, { text: 'kept' });
      await app.publish('kept');
    });
    const failing = run(async () => {
      await app.publish('lost');
      throw new Rollback();
    });
    await expect(failing).rejects.toThrow(Rollback);
    await run(() => app.publish('last'));
    await app.collector.count(2);
    expect(app.received()).toEqual(['kept', 'last']);
    expect(await app.texts()).toEqual(['kept']);
  });

  test('Transactions.run() is a savepoint in it, which repositories join; after-commit work waits for its commit', async () => {
    const committed: string[] = [];
    await run(async (manager) => {
      await manager.save(Note, { text: 'outer' });
      const taken = app.transactions.run(async () => {
        await app.write('taken back');
        throw new Rollback();
      });
      await expect(taken).rejects.toThrow(Rollback);
      await app.transactions.run(async () => {
        await app.write('inner');
        app.transactions.afterCommit(() => void committed.push('inner'));
      });
      app.transactions.afterCommit(() => void committed.push('outer'));
      expect(committed).toEqual([]);
    });
    expect(committed).toEqual(['inner', 'outer']);
    expect(await app.texts()).toEqual(['inner', 'outer']);
  });

  test("outside() and the module's own work are outside of it", async () => {
    const failing = run(async () => {
      await app.transactions.outside(async () => {
        expect(app.transactions.active()).toBeUndefined();
        await expect(app.publish('x')).rejects.toThrow(TransactionRequiredError);
        await app.write('outside');
      });
      await runOutside(app.dataSource(), () => {
        expect(library.active(app.dataSource())).toBeUndefined();
        return Promise.resolve();
      });
      expect(app.transactions.active()).toBeDefined();
      throw new Rollback();
    });
    await expect(failing).rejects.toThrow(Rollback);
    expect(await app.texts()).toEqual(['outside']);
  });

  test('G5: it can be used in an @Idempotent() handler, where it is a transaction of its own', async () => {
    handler.run = async (message) => {
      await app.write(message);
      await app.publish(message);
      await run((manager) => manager.save(Note, { text: 'its own' }));
    };
    await app.broker.sendToQueue(app.input, 'n-1', { messageId: 'n-1' });
    await app.collector.count(1);
    expect(await app.texts()).toEqual(['its own', 'n-1']);
  });
});
