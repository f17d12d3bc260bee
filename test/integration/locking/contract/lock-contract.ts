import { basicCases } from './basic-cases';
import { ContractBench } from './contract-bench';
import { fuzzCase } from './fuzz-case';
import { hostileCases } from './hostile-cases';
import type { LockDatabase } from './lock-database';
import { processCases } from './process-cases';
import { shiftClock } from './shifted-clock';

const HOUR = 3_600_000;

/**
 * The contract of the lock, on whatever database: its 28 cases have their numbers in front of their names. Those about
 * processes (the second of 19, 20 and 21) are there once, where this process's clock is right: theirs are wrong by an hour in
 * both directions.
 *
 * @param open a database for the tests of this file
 * @param hours by which the clock of this process is wrong
 */
export function describeLockContract(family: string, open: () => Promise<LockDatabase>, hours = 0): void {
  const clock = hours === 0 ? '' : `, C40: with a clock that is ${hours > 0 ? '+' : ''}${hours} h wrong`;
  describe(`The lock contract on ${family}${clock}`, () => {
    let bench: ContractBench;
    let setClockRight = () => {};
    beforeAll(async () => {
      setClockRight = shiftClock(hours * HOUR);
      bench = await ContractBench.open(await open());
    });
    afterEach(() => bench.database.clear());
    afterAll(async () => {
      await bench?.close();
      setClockRight();
    });

    basicCases(() => bench);
    hostileCases(() => bench);
    // In full once.
    fuzzCase(() => bench, hours === 0 ? 100 : 10);
    if (hours === 0) processCases(() => bench);
  });
}
