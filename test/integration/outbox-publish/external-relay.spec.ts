import { readFileSync } from 'node:fs';
import { openOutbox, type OpenOutbox } from './open-outbox';

/** docs/debezium.md is about the table as others read it, so what it says is tried here. */
const page = readFileSync('docs/debezium.md', 'utf8');

describe('The outbox table as an external relay reads it', () => {
  let open: OpenOutbox;
  beforeAll(async () => (open = await openOutbox()));
  afterAll(() => open.close());
  beforeEach(() => open.reset());

  const columns = async () => {
    const rows = await open.pg.database.query<{ name: string; type: string; nullable: string }>(
      `SELECT column_name AS name, data_type AS type, is_nullable AS nullable FROM information_schema.columns
       WHERE table_name = 'outbox_message'`,
    );
    return new Map(
      rows.map(({ name, type, nullable }) => [name, nullable === 'YES' ? `${type}, null` : type]),
    );
  };

  test('every column of the page exists and has the type that it says', async () => {
    const found = await columns();
    const said = [...page.matchAll(/^\| `(\w+)` +\| `([\w ]+)`(, null)? +\|/gm)];
    expect(said).toHaveLength(12);
    for (const [, name, type, nullable = ''] of said)
      expect([name, found.get(name!)]).toEqual([name, type + nullable]);
  });

  test('every column that the connector is told of exists', async () => {
    const found = await columns();
    const json = /```json\n(.*?)```/s.exec(page)![1]!;
    const config = JSON.parse(json) as Record<string, string>;
    const of = (property: string) => config[`transforms.outbox.${property}`]!;
    const named = [
      of('table.field.event.id'),
      of('table.field.event.key'),
      of('table.field.event.payload'),
      of('route.by.field'),
      ...of('table.fields.additional.placement')
        .split(',')
        .map((placement) => placement.split(':')[0]!),
    ];
    expect(named).toHaveLength(8);
    expect(named.filter((column) => !found.has(column))).toEqual([]);
  });

  test('a published message has the values that the page says', async () => {
    await open.inTransaction(async () => {
      await open.outbox.publish(
        'claims',
        'claim.reported',
        { claim: 4711 },
        {
          messageId: 'n-1',
          orderingKey: 'claim-4711',
          correlationId: 'case-1',
          headers: { source: 'web', bytes: Buffer.from([255]) },
        },
      );
      await open.outbox.publish('claims', 'claim.scanned', Buffer.from([0, 255]), { messageId: 'n-2' });
    });
    const [first, second] = await open.stored();
    expect(first).toMatchObject({
      message_id: 'n-1',
      transport: 'rabbitmq',
      exchange: 'claims',
      routing_key: 'claim.reported',
      ordering_key: 'claim-4711',
      body: '{"claim":4711}',
      body_encoding: 'utf8',
      status: 'ready',
      properties: '{"correlationId":"case-1"}',
    });
    expect(JSON.parse(first!.headers as string)).toEqual({
      source: 'web',
      bytes: { '!': '$buffer', value: Buffer.from([255]).toString('base64') },
    });
    expect(second).toMatchObject({
      body: 'AP8=',
      body_encoding: 'base64',
      ordering_key: null,
      headers: null,
    });
    expect(Number(first!.seq)).toBeLessThan(Number(second!.seq));
  });

  test('the SQL of the page works, and deletes what is old and nothing else', async () => {
    await open.publish('old');
    await open.publish('old and dead');
    await open.publish('new');
    await open.pg.database.query(
      "UPDATE outbox_message SET created_at = created_at - interval '2 days' WHERE body LIKE '%old%'",
    );
    await open.pg.database.query(`UPDATE outbox_message SET status = 'dead' WHERE body LIKE '%dead%'`);
    const statements = [...page.matchAll(/```sql\n(.*?)```/gs)].map(([, sql]) => sql!);
    expect(statements).toHaveLength(2);
    // The row filter of a publication needs PostgreSQL 15.
    const usable =
      Number(open.pg.database.serverVersion.split('.')[0]) >= 15 ? statements : statements.slice(1);
    for (const sql of usable) await open.pg.database.query(sql);
    expect((await open.stored()).map(({ body }) => body)).toEqual(['"old and dead"', '"new"']);
  });
});
