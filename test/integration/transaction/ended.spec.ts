import { TransactionEndedError } from '../../../lib/transaction/transaction-ended.error';
import { Transactions } from '../../../lib/transaction/transactions';
import { createBench, Note, Rollback, signal, type Bench, type Signal } from './fixtures';

describe('work that outlives its transaction', () => {
  let bench: Bench;
  let transactions: Transactions;
  const notes = () => bench.dataSource.getRepository(Note);

  beforeAll(async () => {
    bench = await createBench();
    transactions = new Transactions(bench.dataSource);
  });
  afterAll(() => bench?.close());
  beforeEach(() => bench.clear());

  const touches: [string, () => unknown][] = [
    ['repository.save()', () => notes().save({ text: 'late' })],
    ['repository.insert()', () => notes().insert({ text: 'late' })],
    ['repository.find()', () => notes().find()],
    ['repository.clear()', () => notes().clear()],
    ['dataSource.query()', () => bench.dataSource.query(`INSERT INTO notes (text) VALUES ('late')`)],
    ['dataSource.transaction()', () => bench.dataSource.transaction(() => notes().insert({ text: 'late' }))],
    [
      'a query builder',
      () => bench.dataSource.createQueryBuilder().insert().into(Note).values({ text: 'late' }).execute(),
    ],
    ['Transactions.active()', () => transactions.active()],
    ['Transactions.run()', () => transactions.run(() => notes().insert({ text: 'late' }))],
    ['Transactions.afterCommit()', () => transactions.afterCommit(() => undefined)],
  ];

  /** Starts `touch` inside, lets it go on only after the end, and gives what became of it. */
  const straggler = (end: Signal, touch: () => unknown) =>
    (async () => {
      await end.promise;
      return touch();
    })().catch((error: unknown) => error);

  it.each(touches)('%s after the commit is refused and writes nothing', async (_name, touch) => {
    const end = signal();
    let late: Promise<unknown> | undefined;
    await bench.dataSource.transaction(async () => {
      late = straggler(end, touch);
      await notes().insert({ text: 'in time' });
    });
    end.give();
    expect(await late).toBeInstanceOf(TransactionEndedError);
    expect(await bench.texts()).toEqual(['in time']);
  });

  it.each(touches)('%s after the rollback is refused and writes nothing', async (_name, touch) => {
    const end = signal();
    let late: Promise<unknown> | undefined;
    const failed = bench.dataSource.transaction(async () => {
      late = straggler(end, touch);
      throw new Rollback();
    });
    await expect(failed).rejects.toThrow(Rollback);
    end.give();
    expect(await late).toBeInstanceOf(TransactionEndedError);
    expect(await bench.texts()).toEqual([]);
  });

  it.each(touches)(
    '%s of a rolled-back nested transaction is refused while the outer one is open',
    async (_name, touch) => {
      await bench.dataSource.transaction(async () => {
        const end = signal();
        let late: Promise<unknown> | undefined;
        const failed = bench.dataSource.transaction(async () => {
          late = straggler(end, touch);
          throw new Rollback();
        });
        await expect(failed).rejects.toThrow(Rollback);
        end.give();
        expect(await late).toBeInstanceOf(TransactionEndedError);
        await notes().insert({ text: 'outer' });
      });
      expect(await bench.texts()).toEqual(['outer']);
    },
  );

  it('says what happened and what to do', async () => {
    const end = signal();
    let late: Promise<unknown> | undefined;
    await bench.dataSource.transaction(async () => {
      late = straggler(end, () => transactions.active());
    });
    end.give();
    expect(((await late) as Error).message).toMatch(
      /has already ended \(committed\).*Await it.*Transactions\.outside/s,
    );
  });

  it('a save() that is in the middle when its transaction ends is refused half-way, and never commits by itself', async () => {
    // save() of an entity with an id first reads, then inserts: the end falls between the two.
    for (let i = 0; i < 20; i++) {
      let late: Promise<unknown> | undefined;
      await bench.dataSource
        .transaction(async () => {
          late = notes()
            .save({ id: 1000 + i, text: 'late' })
            .catch((error: unknown) => error);
          throw new Rollback();
        })
        .catch(() => undefined);
      expect(await late).toBeInstanceOf(TransactionEndedError);
    }
    expect(await bench.texts()).toEqual([]);
  });

  it('a nested transaction that nobody awaited is not committed by half', async () => {
    const half = signal();
    let late: Promise<unknown> | undefined;
    await bench.dataSource.transaction(async () => {
      await notes().insert({ text: 'outer' });
      late = bench.dataSource
        .transaction(async () => {
          await notes().insert({ text: 'first half' });
          half.give();
          await new Promise((resolve) => setImmediate(resolve));
          await notes().insert({ text: 'second half' });
        })
        .catch((error: unknown) => error);
      await half.promise;
    });
    expect(await late).toBeInstanceOf(TransactionEndedError);
    expect(await bench.texts()).toEqual(['outer']);
  });

  it('nested transactions still in the queue at the end are refused', async () => {
    const queued: Promise<unknown>[] = [];
    await bench.dataSource.transaction(async () => {
      await notes().insert({ text: 'outer' });
      for (let i = 0; i < 5; i++) {
        const late = bench.dataSource.transaction(async () => {
          await notes().insert({ text: `nested ${i}` });
          await new Promise((resolve) => setImmediate(resolve));
        });
        queued.push(late.catch((error: unknown) => error));
      }
    });
    for (const late of await Promise.all(queued)) expect(late).toBeInstanceOf(TransactionEndedError);
    expect(await bench.texts()).toEqual(['outer']);
  });

  it('what was created in outside() goes on after the end, and was never inside', async () => {
    const end = signal();
    let late: Promise<unknown> | undefined;
    const failed = bench.dataSource.transaction(async () => {
      late = transactions.outside(async () => {
        await end.promise;
        expect(transactions.active()).toBeUndefined();
        await notes().insert({ text: 'long-lived' });
      });
      throw new Rollback();
    });
    await expect(failed).rejects.toThrow(Rollback);
    end.give();
    await late;
    expect(await bench.texts()).toEqual(['long-lived']);
  });
});
