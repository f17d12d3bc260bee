import type { QueryRunner } from 'typeorm';
import type { Dialect } from '../persistence/dialect';

/** Whether the runner's connection is gone, whatever the code that used it has made of that. */
export async function isConnectionGone(
  runner: QueryRunner,
  dialect: Pick<Dialect, 'isConnectionFault'>,
): Promise<boolean> {
  try {
    await runner.query('SELECT 1');
    return false;
  } catch (error) {
    // A failed transaction refuses the question, which is an answer.
    return dialect.isConnectionFault(error) || runner.isReleased;
  }
}
