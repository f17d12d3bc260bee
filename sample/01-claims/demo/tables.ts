import { show } from '../../shared/narrator';
import type { World } from './world';

/** What the two services' tables say, read with SQL. */
export class Tables {
  constructor(private readonly world: World) {}

  cases(claim: string): Promise<number> {
    return this.world.settlementDb.number('SELECT count(*) FROM cases WHERE claim_number = $1', [claim]);
  }

  claims(claim: string): Promise<number> {
    return this.world.intakeDb.number('SELECT count(*) FROM claims WHERE number = $1', [claim]);
  }

  /** The message about this claim as the outbox holds it. */
  async message(claim: string): Promise<OutboxRow | undefined> {
    const [row] = await this.world.intakeDb.rows<OutboxRow>(
      `SELECT message_id, body, status, attempts, claim_token IS NOT NULL AS claimed FROM outbox_message
       WHERE routing_key = 'claim.reported' AND body LIKE $1`,
      [`%${claim}%`],
    );
    return row;
  }

  /** How often the broker has handed this message to settlement. With `outcome`: how often that ended so. */
  async deliveries(messageId: string, outcome?: 'acked' | 'rejected'): Promise<number> {
    return this.world.settlementDb.number(
      `SELECT count(*) FROM demo_deliveries
       WHERE queue LIKE '%settlement' AND message_id = $1 AND ($2::text IS NULL OR outcome = $2)`,
      [messageId, outcome],
    );
  }

  /** It has failed, and waits in the inbox table for its next try. */
  async isKept(messageId: string): Promise<boolean> {
    const sql =
      "SELECT count(*) FROM inbox_message WHERE message_id = $1 AND status = 'open' AND attempts > 0";
    return (await this.world.settlementDb.number(sql, [messageId])) === 1;
  }

  /** The whole round: sent, handled, and the claim knows its case. */
  async complete(claim: string): Promise<boolean> {
    const sql = 'SELECT count(*) FROM claims WHERE number = $1 AND case_id IS NOT NULL';
    return (await this.world.intakeDb.number(sql, [claim])) === 1 && (await this.nothingToSend());
  }

  async nothingToSend(): Promise<boolean> {
    const open = "SELECT count(*) FROM outbox_message WHERE status <> 'sent'";
    for (const sql of new Set([this.world.intakeDb, this.world.settlementDb])) {
      if ((await sql.number(open)) > 0) return false;
    }
    return true;
  }

  async show(claim: string): Promise<void> {
    const { intakeDb, settlementDb } = this.world;
    const message = await this.message(claim);
    const lines = async (sql: string, parameters: unknown[], from = settlementDb) =>
      (await from.rows<{ line: string }>(sql, parameters)).map(({ line }) => line);
    show(
      'intake.claims',
      await lines(
        `SELECT number || ', ' || loss || ', ' || coalesce('case ' || case_id, 'no case yet') AS line
         FROM claims WHERE number = $1`,
        [claim],
        intakeDb,
      ),
    );
    show('intake.outbox', message ? [describe(message)] : []);
    show(
      'settlement.inbox',
      await lines(
        `SELECT message_id || ', ' || status
           || CASE status WHEN 'done' THEN '' ELSE coalesce(', ' || split_part(last_error, E'\\n', 1), '') END AS line
         FROM inbox_message WHERE message_id = $1`,
        [message?.message_id],
      ),
    );
    show(
      'settlement.cases',
      await lines(
        "SELECT 'case ' || id || ' for ' || claim_number AS line FROM cases WHERE claim_number = $1",
        [claim],
      ),
    );
  }
}

export interface OutboxRow {
  message_id: string;
  body: string;
  status: string;
  attempts: number;
  claimed: boolean;
}

function describe({ message_id, status, attempts, claimed }: OutboxRow): string {
  const failed = attempts > 0 ? `, ${attempts} failed attempts` : '';
  return `${message_id}, claim.reported, ${status}${claimed ? ', claimed' : ''}${failed}`;
}
