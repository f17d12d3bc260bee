import { startAppProcess, type AppProcess } from '../../../support/app-process';
import { waitFor } from '../../../support/wait-for';
import type { ContractBench } from './contract-bench';

const HOUR = 3_600_000;
const CLOCKS = [HOUR, -HOUR, 0, HOUR];

/** The cases about processes. All of them have one host name and one pid, as containers may, and clocks that differ. */
export function processCases(bench: () => ContractBench): void {
  let processes: AppProcess[] = [];
  beforeAll(() => {
    // Started here and waited for where they are needed: loading them takes longer than all the cases before.
    processes = CLOCKS.map((clock) =>
      startAppProcess('test/integration/locking/fixtures/lock-process.ts', {
        env: { ...bench().database.env, CLOCK_SHIFT: String(clock) },
      }),
    );
    for (const each of processes)
      each.waitFor('ready', undefined, { timeout: 60_000 }).catch(() => undefined);
  });
  afterAll(() => Promise.all(processes.map((each) => each.close())));
  const ready = () =>
    waitFor('the processes', () => processes.every((each) => each.events('ready').length === 1), {
      timeout: 60_000,
    });
  const request = <R>(app: AppProcess, type: string, payload?: unknown) => app.request<R>(type, payload);

  it('19. fuzz: 4 processes, two lock names, 100 rounds each: both counters are exact', async () => {
    await ready();
    const { dataSource } = bench().connection;
    await dataSource.query('CREATE TABLE fuzz_counter (name varchar(10) PRIMARY KEY, value int NOT NULL)');
    await dataSource.query(`INSERT INTO fuzz_counter VALUES ('c', 0), ('d', 0)`);
    await Promise.all(
      processes.map((each, n) =>
        each.request('fuzz', { names: n % 2 ? ['c', 'd'] : ['d', 'c'], rounds: 50 }, { timeout: 60_000 }),
      ),
    );
    expect(await dataSource.query('SELECT name, value FROM fuzz_counter ORDER BY name')).toEqual([
      { name: 'c', value: 200 },
      { name: 'd', value: 200 },
    ]);
  });

  /** Whose clock is an hour ahead, and whose an hour behind. */
  const orders = [
    ['ahead', 'behind', [0, 1, 2]],
    ['behind', 'ahead', [1, 0, 2]],
  ] as const;
  const inOrder = (order: readonly number[]) =>
    order.map((n) => processes[n]) as [AppProcess, AppProcess, AppProcess];

  it.each(orders)(
    '20. two processes with the same host name never release each other’s lock: %s, %s',
    async (_, __, order) => {
      await ready();
      const [a, b] = inOrder(order);
      expect(await request(a, 'identity')).toEqual(await request(b, 'identity'));
      expect(await request(a, 'tryLock', { name: 'job', lockAtMostFor: 300 })).toBe(true);
      await bench().expired('job');
      expect(await request(b, 'tryLock', { name: 'job', lockAtMostFor: 60_000 })).toBe(true);
      const ofB = await bench().database.state('job');
      expect(await request(a, 'unlock', 'job')).toBe(false);
      expect(await bench().database.state('job')).toEqual(ofB);
      expect(await request(b, 'unlock', 'job')).toBe(true);
    },
  );

  it.each(orders)(
    '21. C41: a holder that was stopped beyond its lease is refused when it wakes, and knows it: %s, %s',
    async (_, __, order) => {
      await ready();
      const [a, b, c] = inOrder(order);
      const config = { name: 'job', lockAtMostFor: 1_000 };
      expect(await request(a, 'tryLock', config)).toBe(true);
      expect(await request(a, 'tryLock', { ...config, name: 'kept', keepAlive: true })).toBe(true);
      a.stop();
      await bench().expired('job');
      await bench().expired('kept');
      for (const name of ['job', 'kept']) {
        expect(await request(b, 'tryLock', { name, lockAtMostFor: 60_000, keepAlive: true })).toBe(true);
      }
      const rows = () => Promise.all(['job', 'kept'].map((name) => bench().database.state(name)));
      const ofB = await rows();
      a.cont();
      expect(await request(a, 'signal', 'job')).toBe('LockLostError');
      expect(await request(a, 'signal', 'kept')).toBe('LockLostError');
      expect(await request(a, 'extend', 'job')).toBe(false);
      expect(await request(a, 'unlock', 'kept')).toBe(false);
      expect(await request(c, 'tryLock', config)).toBe(false);
      expect(await rows()).toEqual(ofB);
      for (const name of ['job', 'kept']) expect(await request(b, 'unlock', name)).toBe(true);
    },
  );
}
