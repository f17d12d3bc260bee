import { InFlightWindow } from '../../../lib/claiming/in-flight-window';
import { OrderedRun } from '../../../lib/claiming/ordered-run';

interface Item {
  name: string;
  key: string | null;
}

const items = (...names: string[]): Item[] =>
  names.map((name) => ({ name, key: /^[a-z]\d/.test(name) ? name.charAt(0) : null }));

/** Work that ends when the test says so. */
function manual() {
  const open = new Map<string, (result: boolean) => void>();
  return {
    work: ({ name }: Item) => new Promise<boolean>((resolve) => open.set(name, resolve)),
    get underWay() {
      return [...open.keys()];
    },
    async end(name: string, result = true) {
      open.get(name)!(result);
      open.delete(name);
      await new Promise(setImmediate);
    },
  };
}

function run(list: Item[], size: number, window = new InFlightWindow(size)) {
  const hand = manual();
  const order = new OrderedRun<Item, boolean>({
    items: list,
    keyOf: ({ key }) => key,
    work: hand.work,
    goesOn: (result) => result,
    window,
  });
  const done = order.run();
  const results = () => Object.fromEntries([...order.results].map(([{ name }, result]) => [name, result]));
  return { hand, order, done, results };
}

describe('OrderedRun', () => {
  it('starts all without a key and the first of each key', () => {
    const { hand } = run(items('a1', 'a2', 'b1', 'X', 'b2', 'Y'), 10);
    expect(hand.underWay).toEqual(['a1', 'b1', 'X', 'Y']);
  });

  it('lets the next of a key follow only when the one before has worked', async () => {
    const { hand, done, results } = run(items('a1', 'a2', 'a3', 'b1', 'b2'), 10);
    await hand.end('a1');
    expect(hand.underWay).toEqual(['b1', 'a2']);
    await hand.end('b1', false);
    expect(hand.underWay).toEqual(['a2']);
    await hand.end('a2');
    await hand.end('a3');
    await done;
    expect(results()).toEqual({ a1: true, a2: true, a3: true, b1: false });
  });

  it('has no more under way than the window allows, in order, and shares it', async () => {
    const window = new InFlightWindow(3);
    const first = run(items('A', 'B'), 0, window);
    const second = run(items('C', 'D', 'E'), 0, window);
    expect([...first.hand.underWay, ...second.hand.underWay]).toEqual(['A', 'B', 'C']);
    await first.hand.end('A');
    expect(second.hand.underWay).toEqual(['C', 'D']);
    await second.hand.end('C');
    expect(second.hand.underWay).toEqual(['D', 'E']);
    await first.hand.end('B');
    await second.hand.end('D');
    await second.hand.end('E');
    await Promise.all([first.done, second.done]);
  });

  it('given up, it ends at once, starts nothing more, and keeps the results so far', async () => {
    const list = items('A', 'B', 'a1', 'a2');
    const { hand, order, done, results } = run(list, 10);
    await hand.end('A');
    order.giveUp();
    await done;
    expect(results()).toEqual({ A: true });
    await hand.end('a1');
    expect(hand.underWay).toEqual(['B']);
    expect(results()).toEqual({ A: true });
    expect(order.wasStarted(list[1]!)).toBe(true);
    expect(order.wasStarted(list[3]!)).toBe(false);
  });

  it('ends at once when there is nothing to do', () => run([], 1).done);
});
