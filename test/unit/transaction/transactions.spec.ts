import type { DataSource, EntityManager } from 'typeorm';
import { AfterCommitUnsupportedError } from '../../../lib/transaction/after-commit-unsupported.error';
import { TransactionRequiredError } from '../../../lib/transaction/transaction-required.error';
import type { TransactionSource } from '../../../lib/transaction/transaction-source';
import { Transactions } from '../../../lib/transaction/transactions';

class FakeSource implements TransactionSource {
  readonly asked: DataSource[] = [];
  constructor(
    readonly name: string,
    private readonly manager?: EntityManager,
  ) {}
  active(dataSource: DataSource) {
    this.asked.push(dataSource);
    return this.manager;
  }
}

describe('the chain of transaction sources', () => {
  const dataSource = {} as DataSource;
  const manager = { name: 'theirs' } as unknown as EntityManager;

  it('is asked in order; the first that knows a transaction answers', () => {
    const sources = [new FakeSource('a'), new FakeSource('b', manager), new FakeSource('c', manager)];
    expect(new Transactions(dataSource, sources).active()).toBe(manager);
    expect(sources.map((source) => source.asked)).toEqual([[dataSource], [dataSource], []]);
  });

  it('without a transaction there is none, and after-commit work is refused', () => {
    const transactions = new Transactions(dataSource, [new FakeSource('a')]);
    expect(transactions.active()).toBeUndefined();
    expect(transactions.resolve()).toBeUndefined();
    expect(() => transactions.afterCommit(() => undefined)).toThrow(TransactionRequiredError);
  });

  it('a source that cannot tell the commit is named', () => {
    const transactions = new Transactions(dataSource, [new FakeSource('a', manager)]);
    expect(() => transactions.afterCommit(() => undefined)).toThrow(AfterCommitUnsupportedError);
  });

  it('what runs outside is outside of all sources, and gives back what it gives', () => {
    const left: string[] = [];
    const leaving = (name: string) =>
      Object.assign(new FakeSource(name), {
        outside<T>(fn: () => T): T {
          left.push(name);
          return fn();
        },
      });
    const transactions = new Transactions(dataSource, [leaving('a'), new FakeSource('b'), leaving('c')]);
    expect(transactions.outside(() => left.join())).toBe('a,c');
  });

  it('after-commit work goes to the source whose transaction it is', () => {
    const fn = () => undefined;
    const afterCommit = jest.fn();
    const source = Object.assign(new FakeSource('a', manager), { afterCommit });
    new Transactions(dataSource, [source]).afterCommit(fn);
    expect(afterCommit).toHaveBeenCalledWith(dataSource, fn);
  });
});
