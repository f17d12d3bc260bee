import { setTimeout as delay } from 'node:timers/promises';
import { waitFor } from '../../support/wait-for';
import { DispatchSetup } from './dispatch-setup';

describe('G11: rows that were damaged in the table by hand', () => {
  let setup: DispatchSetup;
  let exchange: string;
  let queue: string;
  beforeAll(async () => {
    setup = await DispatchSetup.open();
    exchange = await setup.broker.assertExchange('ex');
    queue = await setup.queue('damaged', exchange);
  });
  afterEach(() => setup.reset());
  afterAll(() => setup?.close());

  const message = (body: string) => ({ exchange, routingKey: 'damaged', body });
  /** Sends three messages, of which the second was damaged by this. */
  async function damage(assignment: string) {
    const [, middle] = await setup.table.publish(
      message('"before"'),
      message('"damaged"'),
      message('"after"'),
    );
    await setup.database.query(`UPDATE outbox_message SET ${assignment} WHERE message_id = '${middle}'`);
    await setup.dispatcher().runOnce();
    const bodies = (await setup.broker.drain(queue)).map(({ content }) => content.toString());
    return { row: (await setup.rows())[0], bodies };
  }

  it.each([
    [`headers = '{"a":'`, 'The column "headers" cannot be read: '],
    [`headers = '[1]'`, 'The column "headers" cannot be read: '],
    [`headers = '{"a":{"!":"$bigint","value":"x"}}'`, 'The column "headers" cannot be read: '],
    [`headers = '{"a":{"!":"$table","value":5}}'`, 'The column "headers" cannot be read: '],
    [`properties = 'type=x'`, 'The column "properties" cannot be read: '],
    [`properties = 'null'`, 'The column "properties" cannot be read: '],
    [`body = 'no base64!', body_encoding = 'base64'`, 'The column "body" cannot be read: it is no base64'],
    [`body = 'QUJD=QUJD', body_encoding = 'base64'`, 'The column "body" cannot be read: it is no base64'],
    [`body_encoding = 'latin1'`, 'The column "body_encoding" cannot be read: it is "latin1"'],
    [`transport = 'kafka'`, 'The column "transport" cannot be read: there is no transport "kafka"'],
  ])('%s: dead at once with a telling error, and its neighbours are sent', async (assignment, error) => {
    const { row, bodies } = await damage(assignment);
    expect(bodies).toEqual(['"before"', '"after"']);
    expect(row).toMatchObject({ status: 'dead', attempts: 1, last_error: expect.stringContaining(error) });
  });

  it('a body that is NULL, where somebody has dropped the constraint', async () => {
    await setup.database.query('ALTER TABLE outbox_message ALTER body DROP NOT NULL');
    const { row, bodies } = await damage('body = NULL');
    expect(bodies).toEqual(['"before"', '"after"']);
    expect(row).toMatchObject({ status: 'dead', last_error: expect.stringContaining('it is empty (NULL)') });
  });

  it('an empty body, base64 with line breaks, and an unreadable retry policy harm nothing', async () => {
    expect((await damage(`body = ''`)).bodies).toEqual(['"before"', '', '"after"']);
    const long = 'x'.repeat(100);
    const wrapped = `body = encode('${long}', 'base64'), body_encoding = 'base64'`;
    expect((await damage(wrapped)).bodies).toEqual(['"before"', long, '"after"']);
    expect((await damage(`retry = '{'`)).bodies).toHaveLength(3);
    expect(await setup.rows()).toEqual([]);
  });

  it('what AMQP cannot carry is tried again like any failure, for the reason may be in the configuration', async () => {
    const { row, bodies } = await damage(`properties = '{"contentType":5}'`);
    expect(bodies).toEqual(['"before"', '"after"']);
    expect(row).toMatchObject({
      status: 'scheduled',
      attempts: 1,
      last_error: expect.stringContaining('Cannot be sent by AMQP'),
    });
  });

  it('is told to onDead, after the commit, once; an alarm that fails changes nothing', async () => {
    const alarms: unknown[] = [];
    const raise = (dead: unknown) => void alarms.push(dead);
    const [id] = await setup.table.publish(message('1'));
    await setup.database.query(`UPDATE outbox_message SET headers = '{'`);
    setup.dispatcher({}, { alarm: { raise } }).start();
    await waitFor('the alarm', () => alarms.length > 0);
    expect(await setup.row(id!)).toMatchObject({ status: 'dead' });
    await delay(300);
    expect(alarms).toEqual([
      {
        ...{ box: 'outbox', messageId: id, exchange, routingKey: 'damaged', attempts: 1 },
        error: expect.stringContaining('"headers"'),
        cause: expect.objectContaining({ name: 'DamagedMessageError', column: 'headers' }),
      },
    ]);
  });
});
