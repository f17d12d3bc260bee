import type { QueryRunner } from 'typeorm';

/** The state that TypeORM keeps in a runner and only hides from TypeScript. */
interface RunnerState {
  isTransactionActive: boolean;
  transactionDepth: number;
}

/** Whether the runner has a transaction open, and how many savepoints deep it is: writable where TypeORM gets it wrong. */
export function runnerState(runner: QueryRunner): RunnerState {
  return runner as unknown as RunnerState;
}
