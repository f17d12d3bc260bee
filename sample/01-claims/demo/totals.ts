import { check, title } from '../../shared/narrator';
import type { Expected } from './story';
import type { World } from './world';

/** Counts with SQL what is there in the end, and compares it with what the story should have left. */
export async function total(world: World, expected: Expected, casesPerClaim: number): Promise<void> {
  const { intakeDb, settlementDb } = world;
  const claims = await intakeDb.number('SELECT count(*) FROM claims');
  const sent = await intakeDb.number(
    "SELECT count(*) FROM outbox_message WHERE status = 'sent' AND routing_key = 'claim.reported'",
  );
  const answered = await settlementDb.number(
    "SELECT count(*) FROM outbox_message WHERE status = 'sent' AND routing_key = 'case.opened'",
  );
  const cases = await settlementDb.number('SELECT count(*) FROM cases');
  const onSettlement = "FROM demo_deliveries WHERE queue LIKE '%settlement'";
  const deliveries = await settlementDb.number(`SELECT count(*) ${onSettlement}`);
  const kept = await settlementDb.number(
    "SELECT count(*) FROM inbox_message WHERE status = 'done' AND last_error IS NOT NULL",
  );
  // Every delivery either opened a case, at once or later, or was recognised as a duplicate.
  const duplicates = deliveries - cases;

  title('In the end');
  counted('claims', claims, expected.claims);
  counted('messages sent, claim.reported', sent, expected.claims);
  counted('deliveries to settlement', deliveries, expected.deliveries);
  counted('  of these failed, and tried again', kept, expected.failures);
  counted('  of these recognised as duplicates', duplicates, expected.duplicates);
  counted('cases', cases, expected.claims * casesPerClaim);
  counted('messages sent, case.opened', answered, expected.claims * casesPerClaim);
}

function counted(what: string, actual: number, expected: number): void {
  const wrong = actual === expected ? '' : ` (should be ${expected})`;
  check(`${what.padEnd(38)}${String(actual).padStart(3)}${wrong}`, actual === expected);
}
