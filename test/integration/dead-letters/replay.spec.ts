import { DeadLetterService } from '../../../lib/dead-letters/dead-letter.service';
import { Transactions } from '../../../lib/transaction/transactions';
import { waitFor } from '../../support/wait-for';
import { DispatchSetup } from '../outbox-dispatch/dispatch-setup';

describe('C56: a dead message that is replayed', () => {
  let setup: DispatchSetup;
  let exchange: string;
  let service: DeadLetterService;
  beforeAll(async () => {
    setup = await DispatchSetup.open();
    exchange = await setup.broker.assertExchange('ex');
    service = new DeadLetterService({
      dataSource: setup.table.dataSource,
      transactions: new Transactions(setup.table.dataSource),
      statements: setup.table.dialect.deadLetters,
      notify: { outbox: () => undefined, inbox: () => undefined },
    });
  });
  afterEach(() => setup.reset());
  afterAll(() => setup?.close());

  it('starts its attempts anew, is sent once with the same id and body, and two who ask at once get one yes', async () => {
    const [id] = await setup.table.publish({ exchange, routingKey: 'later', body: '{"claim":"4711"}' });
    await setup.database.query(
      `UPDATE outbox_message SET status = 'dead', attempts = 5, settled_at = now(), last_error = 'the old one'`,
    );
    const which = { box: 'outbox', messageId: id! } as const;
    expect((await Promise.all([service.replay(which), service.replay(which)])).sort()).toEqual([0, 1]);
    expect(await setup.row(id!)).toMatchObject({ status: 'ready', attempts: 0, last_error: 'the old one' });

    const dispatcher = setup.dispatcher({ maxAttempts: 5 });
    expect(await dispatcher.runOnce()).toMatchObject({ failed: 1, dead: 0 });
    expect(await setup.row(id!)).toMatchObject({
      status: 'scheduled',
      attempts: 1,
      last_error: expect.stringContaining('NO_ROUTE'),
    });
    const queue = await setup.queue('later', exchange);
    dispatcher.start();
    await waitFor('it to be settled', async () => (await setup.rows()).length === 0);
    const message = await setup.broker.get(queue);
    expect(message?.content.toString()).toBe('{"claim":"4711"}');
    expect(message?.properties.messageId).toBe(id);
    expect(await setup.broker.get(queue)).toBeFalsy();
  });

  it('with an ordering key takes its place by the order of publishing', async () => {
    const queue = await setup.queue('ordered', exchange);
    const message = (body: string) => ({ exchange, routingKey: 'ordered', body, orderingKey: 'k' });
    const [first] = await setup.table.publish(...['1', '2', '3'].map(message));
    await setup.database.query(`UPDATE outbox_message SET status = 'dead' WHERE message_id = '${first}'`);
    await service.replay({ box: 'outbox', messageId: first! });
    await setup.dispatcher().runOnce();
    const bodies = (await setup.broker.drain(queue)).map(({ content }) => content.toString());
    expect(bodies).toEqual(['1', '2', '3']);
  });

  it('all that died for one reason come back with one call', async () => {
    const queue = await setup.queue('bulk', exchange, { arguments: { 'x-max-length': 10_000 } });
    await setup.table.publish(
      ...Array.from({ length: 1_200 }, (_, n) => ({ exchange, routingKey: 'bulk', body: String(n) })),
    );
    await setup.database.query(
      `UPDATE outbox_message SET status = 'dead', attempts = 10, settled_at = now(),
         last_error = CASE WHEN seq % 2 = 0 THEN 'exchange is missing' ELSE 'other' END`,
    );
    const counts = await Promise.all([
      service.replay({ box: 'outbox', errorContains: 'missing' }),
      service.replay({ box: 'outbox', errorContains: 'missing' }),
    ]);
    expect(counts[0] + counts[1]).toBe(600);
    expect(await setup.dispatcher().runOnce()).toMatchObject({ sent: 600, end: 'idle' });
    await waitFor('the queue', async () => (await setup.broker.ready(queue)) === 600);
    expect((await service.list({ box: 'outbox', limit: 1 })).letters).toHaveLength(1);
  });
});
