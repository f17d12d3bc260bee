import { TransactionAbortedError, TransactionEndedError, TransactionRequiredError } from '../../../../lib';
import { waitFor } from '../../../support/wait-for';
import { Rollback, signal } from '../fixtures';
import { handler, LibraryApp, type LibraryUnderTest } from './library-app';

/** What holds whoever opens the transaction. */
export function describeLibrary(library: LibraryUnderTest): () => LibraryApp {
  let app: LibraryApp;
  const { required, requiresNew } = library;
  const plain = <T>(work: () => Promise<T>, name?: string) => app.dataSource(name).transaction(work);
  const rolledBack = (running: Promise<unknown>) => expect(running).rejects.toThrow(Rollback);
  const rollback = () => {
    throw new Rollback();
  };

  beforeAll(async () => (app = await LibraryApp.start(library)));
  afterAll(async () => {
    await app?.close();
    library.close?.();
  });
  beforeEach(() => app.reset());

  /** What else was to arrive would have by then. */
  const nothingButReceived = async (...expected: string[]) => {
    await plain(() => app.publish('zz-last'));
    await app.collector.count(expected.length + 1);
    expect(app.received()).toEqual([...expected, 'zz-last']);
  };

  test('G1: what is written and published joins: all of it, and sent at once, or nothing', async () => {
    await required(async () => {
      await app.write('kept');
      await app.publish('kept');
    });
    await rolledBack(
      required(async () => {
        await app.write('lost');
        await app.publish('lost');
        rollback();
      }),
    );
    expect(await app.texts()).toEqual(['kept']);
    await app.collector.count(1);
    await nothingButReceived('kept');
  });

  test.each(['inside dataSource.transaction()', 'around it'])(
    '%s: one transaction on one connection',
    async (way) => {
      const [outer, inner] = way === 'around it' ? [required, plain] : [plain, required];
      const both = (end: () => void) =>
        outer(async () => {
          const first = await app.write('outer');
          await app.publish('outer');
          const second = await inner(async () => {
            await app.publish('inner');
            return app.write('inner');
          });
          expect([second, await app.write('last')]).toEqual([first, first]);
          end();
        });
      await rolledBack(both(rollback));
      expect(await app.texts()).toEqual([]);
      await both(() => undefined);
      expect(await app.texts()).toEqual(['inner', 'last', 'outer']);
      await nothingButReceived('inner', 'outer');
    },
  );

  test('C03: a dataSource.transaction() inside of it is a savepoint, which takes its own back', async () => {
    const committed: string[] = [];
    await required(async () => {
      await app.publish('a');
      await rolledBack(
        plain(async () => {
          await app.write('b');
          await app.publish('b');
          app.transactions.afterCommit(() => void committed.push('b'));
          rollback();
        }),
      );
      await app.write('c');
      await app.publish('c');
      app.transactions.afterCommit(() => void committed.push('c'));
      expect(committed).toEqual([]);
    });
    expect(committed).toEqual(['c']);
    expect(await app.texts()).toEqual(['c']);
    await nothingButReceived('a', 'c');
  });

  test('a new transaction asked for inside of it is new here too: it outlives the outer one', async () => {
    for (const outer of [required, plain]) {
      await app.reset();
      const committed: string[] = [];
      await rolledBack(
        outer(async () => {
          const first = await app.write('outer');
          await app.publish('outer');
          const second = await requiresNew(async () => {
            await app.publish('new');
            app.transactions.afterCommit(() => void committed.push('new'));
            const pid = await app.write('new');
            expect(await plain(() => app.write('savepoint'))).toBe(pid);
            return pid;
          });
          expect(second).not.toBe(first);
          expect(committed).toEqual(['new']);
          expect(await app.write('outer again')).toBe(first);
          rollback();
        }),
      );
      expect(await app.texts()).toEqual(['new', 'savepoint']);
      await nothingButReceived('new');
    }
  });

  test('what a new transaction rolls back is its own', async () => {
    await required(async () => {
      await app.write('outer');
      await rolledBack(
        requiresNew(async () => {
          await app.write('new');
          rollback();
        }),
      );
    });
    expect(await app.texts()).toEqual(['outer']);
  });

  test('what runs outside of it survives its rollback', async () => {
    await rolledBack(
      required(async () => {
        const first = await app.write('inside');
        const second = await app.transactions.outside(async () => {
          expect(app.transactions.active()).toBeUndefined();
          await expect(app.publish('outside')).rejects.toThrow(TransactionRequiredError);
          return app.write('outside');
        });
        expect(second).not.toBe(first);
        expect(await app.write('inside again')).toBe(first);
        rollback();
      }),
    );
    expect(await app.texts()).toEqual(['outside']);
  });

  test('a straggler is refused and never writes outside of the transaction', async () => {
    const { promise, give } = signal();
    let straggler: Promise<unknown> = Promise.resolve();
    await required(async () => {
      await app.write('in time');
      straggler = Promise.allSettled([
        promise.then(() => app.write('late')),
        promise.then(() => app.publish('late')),
      ]);
      await Promise.resolve();
    });
    give();
    expect(await straggler).toEqual([
      { status: 'rejected', reason: expect.any(TransactionEndedError) as unknown },
      { status: 'rejected', reason: expect.any(TransactionEndedError) as unknown },
    ]);
    expect(await app.texts()).toEqual(['in time']);
  });

  test('what is not awaited at its end is in the transaction, or refused', async () => {
    for (let round = 0; round < 8; round++) {
      await app.reset();
      let straggler: Promise<unknown> = Promise.resolve();
      await rolledBack(
        required(async () => {
          await app.write('first');
          straggler = Promise.allSettled([app.write('second')]);
          for (let turn = 0; turn < 3 * round; turn++) await Promise.resolve();
          rollback();
        }),
      );
      await straggler;
      expect(await app.texts()).toEqual([]);
    }
  });

  test('a transaction that the database has given up is an error and no commit', async () => {
    const swallowing = required(async () => {
      await app.write('before');
      await app
        .dataSource()
        .query('SELECT 1/0')
        .catch(() => undefined);
    });
    await expect(swallowing).rejects.toThrow(TransactionAbortedError);
    expect(await app.texts()).toEqual([]);
  });

  test('C05: when its connection is killed, the error says so, and nothing is kept', async () => {
    const killed = required(async () => {
      const pid = await app.write('before');
      await app.databases.main.query('SELECT pg_terminate_backend($1)', [pid]);
      await waitFor('the session to end', async () => {
        const open = await app.databases.main.query('SELECT 1 FROM pg_stat_activity WHERE pid = $1', [pid]);
        return open.length === 0;
      });
      await app.write('after');
    });
    await expect(killed).rejects.toThrow(/57P01|terminating connection|Connection terminated/);
    expect(await app.texts()).toEqual([]);
    await required(() => app.write('next'));
    expect(await app.texts()).toEqual(['next']);
  });

  test('C04: twenty at once on eight connections, each holding one', async () => {
    await Promise.all(
      Array.from({ length: 20 }, (_, n) =>
        required(async () => {
          const pid = await app.write(`${n} outer`);
          const pids = [
            await plain(() => required(() => app.write(`${n} inner`))),
            await required(() => plain(() => app.write(`${n} other`))),
          ];
          expect(pids).toEqual([pid, pid]);
          if (n % 2) rollback();
        }).catch((error: unknown) => {
          if (!(error instanceof Rollback)) throw error;
        }),
      ),
    );
    const texts = await app.texts();
    expect(texts).toHaveLength(30);
    expect(texts.every((text) => Number(text.split(' ')[0]) % 2 === 0)).toBe(true);
  });

  test('C06: with two data sources each has its own', async () => {
    await rolledBack(
      required(async () => {
        await app.write('main');
        const pid = await required(async () => {
          await app.publish('billing', 'billing');
          const first = await app.write('billing', 'billing');
          // Still inside of the main one too.
          await plain(() => app.write('main in billing'));
          return first;
        }, 'billing');
        expect(await app.write('main again')).not.toBe(pid);
        expect(app.transactionsOf('billing').active()).toBeUndefined();
        await expect(app.publish('x', 'billing')).rejects.toThrow(TransactionRequiredError);
        rollback();
      }),
    );
    expect(await app.texts('main')).toEqual([]);
    expect(await app.texts('billing')).toEqual(['billing']);
    await app.collector.count(1);
    expect(app.received()).toEqual(['billing']);
    expect(await app.databases.main.query('SELECT * FROM outbox_message')).toEqual([]);
  });

  test('G5: an @Idempotent() handler and what it calls are one transaction', async () => {
    const pids: number[] = [];
    let runs = 0;
    handler.run = async (message) => {
      runs += 1;
      pids.push(await app.write(`handler ${message}`));
      await required(async () => {
        pids.push(await app.write(`service ${message}`));
        await app.publish(message);
      });
      pids.push(await plain(() => required(() => app.write(`savepoint ${message}`))));
      await requiresNew(() => app.write(`audit ${runs}`));
      if (runs === 1) throw new Error('asked to fail');
    };
    await app.broker.sendToQueue(app.input, 'n-1', { messageId: 'n-1' });
    await app.collector.count(1);
    expect(await app.texts()).toEqual(['audit 1', 'audit 2', 'handler n-1', 'savepoint n-1', 'service n-1']);
    expect(new Set(pids.slice(3)).size).toBe(1);
    await app.broker.sendToQueue(app.input, 'n-1', { messageId: 'n-1' });
    await app.broker.drained(app.input);
    expect(runs).toBe(2);
    const rows = await app.databases.main.query('SELECT message_id, status FROM inbox_message');
    expect(rows).toEqual([{ message_id: 'n-1', status: 'done' }]);
    await nothingButReceived('n-1');
  });

  if (library.mandatory) {
    test('the propagation rules see transactions that others have opened', async () => {
      await expect((async () => library.mandatory!(() => app.write('x')))()).rejects.toThrow();
      await plain(async () => {
        const pid = await app.write('outer');
        expect(await library.mandatory!(() => app.write('mandatory'))).toBe(pid);
        await expect((async () => library.never!(() => app.write('never')))()).rejects.toThrow();
      });
      expect(await app.texts()).toEqual(['mandatory', 'outer']);
    });

    test('NOT_SUPPORTED is outside here too, and back inside afterwards', async () => {
      for (const outer of [required, plain]) {
        await app.reset();
        await rolledBack(
          outer(async () => {
            const pid = await app.write('inside');
            await library.notSupported!(async () => {
              expect(await app.write('outside')).not.toBe(pid);
              await expect(app.publish('outside')).rejects.toThrow(TransactionRequiredError);
              await plain(() => app.write('a transaction of its own'));
            });
            expect(await app.write('inside again')).toBe(pid);
            rollback();
          }),
        );
        expect(await app.texts()).toEqual(['a transaction of its own', 'outside']);
      }
    });
  }
  return () => app;
}
