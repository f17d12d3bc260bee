import { setTimeout as delay } from 'node:timers/promises';
import type { LockService } from '../../../../lib/locking/lock.service';
import type { ContractBench } from './contract-bench';

export interface FuzzCounter {
  read(name: string): Promise<number>;
  write(name: string, value: number): Promise<void>;
}

/**
 * Worker of the fuzz: reads a counter under the lock, waits, and writes one more.
 *
 * @param rounds for each of the names, in turn
 */
export async function fuzz(
  locks: LockService,
  names: readonly string[],
  rounds: number,
  counter: FuzzCounter,
): Promise<void> {
  for (let round = 0; round < rounds; round++) {
    for (const name of names) {
      const work = async () => {
        const value = await counter.read(name);
        await delay(1);
        await counter.write(name, value + 1);
      };
      while (!(await locks.execute({ name, lockAtMostFor: '60s' }, work)).executed) {
        await delay(8 + Math.random() * 24);
      }
    }
  }
}

/** @param rounds of each worker */
export function fuzzCase(bench: () => ContractBench, rounds: number): void {
  it(`19. fuzz: 8 workers, two lock names, ${rounds} rounds each: both counters are exact`, async () => {
    const counters: Record<string, number> = { a: 0, b: 0 };
    const counter = {
      read: async (name: string) => counters[name]!,
      write: async (name: string, value: number) => void (counters[name] = value),
    };
    await Promise.all(
      Array.from({ length: 8 }, (_, worker) =>
        fuzz(bench().locks, worker % 2 ? ['a', 'b'] : ['b', 'a'], rounds / 2, counter),
      ),
    );
    expect(counters).toEqual({ a: 4 * rounds, b: 4 * rounds });
    expect(await bench().database.state('a')).toMatchObject({ held: false, fence: BigInt(4 * rounds) });
  });
}
