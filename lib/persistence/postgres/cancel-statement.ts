import type { QueryRunner } from 'typeorm';

/**
 * Ends the statement that is running on a connection, from another one; the transaction around it has failed then. Where
 * none is running nothing happens.
 */
export async function cancelStatement(victim: QueryRunner, other: QueryRunner): Promise<void> {
  const { processID } = (await victim.connect()) as { processID?: number | null };
  if (processID) await other.query('SELECT pg_cancel_backend($1)', [processID]);
}
