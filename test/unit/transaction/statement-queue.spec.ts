import { StatementQueue } from '../../../lib/transaction/statement-queue';

const turn = () => new Promise((resolve) => setImmediate(resolve));

describe('StatementQueue', () => {
  it('runs one at a time, in order, and gives each its own result', async () => {
    const queue = new StatementQueue();
    const log: string[] = [];
    const statement = (name: string) =>
      queue.run(async () => {
        log.push(`${name} starts`);
        await turn();
        log.push(`${name} ends`);
        if (name === 'b') throw new Error('b');
        return name;
      });
    const results = await Promise.allSettled(['a', 'b', 'c'].map(statement));
    expect(results.map((result) => result.status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
    expect(log).toEqual(['a starts', 'a ends', 'b starts', 'b ends', 'c starts', 'c ends']);
  });

  it('lets statements sent from inside one run within its turn, one at a time among themselves', async () => {
    const queue = new StatementQueue();
    const log: string[] = [];
    const inner = (name: string) =>
      queue.run(async () => {
        log.push(`${name} starts`);
        await turn();
        log.push(`${name} ends`);
      });
    const outer = queue.run(async () => {
      await Promise.all([inner('x'), inner('y')]);
      log.push('outer ends');
    });
    const next = queue.run(async () => void log.push('next'));
    await Promise.all([outer, next]);
    expect(log).toEqual(['x starts', 'x ends', 'y starts', 'y ends', 'outer ends', 'next']);
  });

  it('what was started inside and comes after its end waits like everybody else', async () => {
    const queue = new StatementQueue();
    const log: string[] = [];
    let late: Promise<unknown> | undefined;
    let goOn!: () => void;
    const gate = new Promise<void>((resolve) => (goOn = resolve));
    await queue.run(async () => {
      late = gate.then(() => queue.run(async () => void log.push('late')));
    });
    const running = queue.run(async () => {
      goOn();
      await turn();
      log.push('running');
    });
    await Promise.all([running, late]);
    expect(log).toEqual(['running', 'late']);
  });
});

describe('statements that nobody watches', () => {
  it('wait for each other, and for those that are watched', async () => {
    const queue = new StatementQueue();
    const log: string[] = [];
    const statement = (name: string, isWatched: boolean) =>
      queue.run(async () => {
        log.push(`${name} starts`);
        await turn();
        log.push(`${name} ends`);
      }, isWatched);
    await Promise.all([statement('a', false), statement('b', false)]);
    await Promise.all([statement('c', true), statement('d', false)]);
    expect(log.filter((_, index) => index % 2 === 0)).toEqual([
      'a starts',
      'b starts',
      'c starts',
      'd starts',
    ]);
  });

  it('do not wait for the one that they are inside of, whoever was watching when that began', async () => {
    const queue = new StatementQueue();
    const log: string[] = [];
    const note = (name: string) => () => Promise.resolve(void log.push(name));
    // The last subscriber takes itself off, and then sends a statement.
    await queue.run(async () => {
      await queue.run(note('of one who has left'), false);
    }, true);
    // A subscriber comes while a statement is under way, and hears of its end.
    await queue.run(async () => {
      await turn();
      await queue.run(note('of one who has come'), true);
    }, false);
    expect(log).toEqual(['of one who has left', 'of one who has come']);
  });
});
