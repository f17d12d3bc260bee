import { basicCases } from './basic-cases';
import { ContractBench } from './contract-bench';
import { hostileCases } from './hostile-cases';
import type { LockDatabase } from './lock-database';
import { processCases } from './process-cases';
import { shiftClock } from './shifted-clock';

const HOUR = 3_600_000;

/**
 * The contract of the lock, on whatever database: its 28 cases have their numbers in front of their names.
 *
 * @param open a database for the tests of this file
 * @param hours by which the clock of this process is wrong; those of the others are wrong in both directions
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

    processCases(() => bench, hours * HOUR);
    basicCases(() => bench);
    hostileCases(() => bench);
  });
}
