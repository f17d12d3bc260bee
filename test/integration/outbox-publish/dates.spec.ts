import type { EntityManager } from 'typeorm';
import type { OutboxService } from '../../../lib/outbox/outbox.service';
import type { PublishOptions } from '../../../lib/outbox/publish-options';
import type { Postgres } from '../persistence/postgres';
import { message, openOutbox, type OpenOutbox } from './open-outbox';

describe('Dates of messages', () => {
  let open: OpenOutbox;
  let pg: Postgres;
  let outbox: OutboxService;

  beforeAll(async () => {
    open = await openOutbox();
    ({ pg, outbox } = open);
  });
  afterAll(() => open.close());
  beforeEach(() => open.reset());

  const inTransaction = <T>(work: (manager: EntityManager) => Promise<T>) => open.inTransaction(work);
  const publish = (payload: unknown, options?: PublishOptions) => open.publish(payload, options);
  const stored = () => open.stored();

  it('C51: plans what lies ahead and sends at once what does not', async () => {
    const dates = [
      '1969-12-31T23:59:59.000Z',
      '1970-01-01T00:00:00.000Z',
      '0001-01-01T00:00:00.000Z',
      '2038-01-20T00:00:00.700Z',
      '2500-01-01T00:00:00.000Z',
      '9999-12-31T23:59:59.999Z',
    ];
    await inTransaction(() =>
      outbox.publishMany(dates.map((date) => message(date, { deliverAt: new Date(date) }))),
    );
    const rows = await stored();
    expect(rows.map((row) => row.status)).toEqual([
      'ready',
      'ready',
      'ready',
      'scheduled',
      'scheduled',
      'scheduled',
    ]);
    const read = await pg.database.query<{ ms: string }>(
      'SELECT (extract(epoch FROM available_at) * 1000)::numeric(20)::text AS ms FROM outbox_message ORDER BY seq',
    );
    expect(read.map(({ ms }) => new Date(Number(ms)).toISOString())).toEqual(dates);
  });

  it("takes a delay on the database's clock, and an end", async () => {
    await publish(1, { delay: '1m', expiresAt: new Date('2030-01-01') });
    await publish(2, { delay: 0 });
    const rows = await pg.database.query(`
        SELECT status, round(extract(epoch FROM available_at - created_at))::int AS delay,
          expires_at = '2030-01-01T00:00:00Z' AS expires
        FROM outbox_message ORDER BY seq`);
    expect(rows).toEqual([
      { status: 'scheduled', delay: 60, expires: true },
      { status: 'ready', delay: 0, expires: null },
    ]);
  });
});
