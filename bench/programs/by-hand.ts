import { randomUUID } from 'node:crypto';
import { connect } from 'amqplib';
import { Pool } from 'pg';
import { body } from '../harness/body';
import { AMQP_URL } from '../harness/servers';
import { serve } from '../harness/serve';

/**
 * An outbox written by hand for one purpose: claims of 500 rows with SKIP LOCKED, all confirms in flight, one DELETE per
 * batch, two batches at once. No retries, no order, no leases that are renewed: what is possible, not what is reliable.
 */
const pool = new Pool({ connectionString: process.env.DATABASE, max: 4 });
const BATCH = 500;

const CLAIM = `
  UPDATE by_hand SET token = $1, claimed_until = clock_timestamp() + interval '30 seconds'
  WHERE seq = ANY (ARRAY(
    SELECT seq FROM by_hand WHERE token IS NULL ORDER BY seq LIMIT ${BATCH} FOR UPDATE SKIP LOCKED
  ))
  RETURNING message_id, body`;

interface Row {
  readonly message_id: string;
  readonly body: string;
}

const opened = connect(AMQP_URL).then((connection) => connection.createConfirmChannel());
let queue = '';

serve({
  async ready(args: { queue: string }): Promise<void> {
    queue = args.queue;
    await pool.query(
      `CREATE TABLE by_hand (seq bigserial PRIMARY KEY, message_id text UNIQUE, body text, token uuid, claimed_until timestamptz)`,
    );
    await pool.query('CREATE INDEX ON by_hand (seq) WHERE token IS NULL');
    await pool.query('CREATE INDEX ON by_hand (token)');
  },

  async fill({ count }: { count: number }): Promise<void> {
    const bodies = Array.from({ length: count }, (_, n) => JSON.stringify(body(n)));
    await pool.query(
      'INSERT INTO by_hand (message_id, body) SELECT gen_random_uuid()::text, b FROM unnest($1::text[]) AS b',
      [bodies],
    );
    await pool.query('VACUUM ANALYZE by_hand');
  },

  async drain(): Promise<number> {
    const started = performance.now();
    await Promise.all([worker(), worker()]);
    return performance.now() - started;
  },
});

async function worker(): Promise<void> {
  const channel = await opened;
  for (;;) {
    const token = randomUUID();
    const { rows } = await pool.query<Row>(CLAIM, [token]);
    if (rows.length === 0) return;
    await Promise.all(
      rows.map(
        (row) =>
          new Promise<void>((resolve, reject) => {
            const options = {
              persistent: true,
              mandatory: true,
              messageId: row.message_id,
              contentType: 'application/json',
            };
            channel.publish('', queue, Buffer.from(row.body), options, (error: unknown) =>
              error ? reject(new Error('not confirmed')) : resolve(),
            );
          }),
      ),
    );
    await pool.query('DELETE FROM by_hand WHERE token = $1', [token]);
  }
}
