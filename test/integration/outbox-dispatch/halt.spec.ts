import type { OutboxOptions } from '../../../lib/inbox-outbox.options';
import { type AppProcess, startAppProcess } from '../../support/app-process';
import { waitFor } from '../../support/wait-for';
import { DispatchSetup } from './dispatch-setup';

const LEASE = 1_500;

describe('onDeadLetter', () => {
  let setup: DispatchSetup;
  let exchange: string;
  let queue: string;
  const processes: AppProcess[] = [];
  beforeAll(async () => {
    setup = await DispatchSetup.open();
    exchange = await setup.broker.assertExchange('ex');
    queue = await setup.queue('q', exchange);
  });
  afterEach(async () => {
    await Promise.all(processes.splice(0).map((each) => each.close()));
    await setup.reset();
    await setup.broker.channel.purgeQueue(queue);
  });
  afterAll(() => setup?.close());

  const keyed = (routingKey: string, orderingKey: string | null, body: string) => ({
    exchange,
    routingKey,
    orderingKey,
    body,
  });
  /** The first of `a` cannot be routed until the test binds the queue. */
  const publish = () =>
    setup.table.publish(
      keyed('unbound', 'a', 'a1'),
      keyed('q', 'a', 'a2'),
      keyed('q', 'b', 'b1'),
      keyed('q', null, 'free'),
    );
  const arrived = async () => (await setup.broker.drain(queue)).map((each) => each.content.toString());
  const replay = () =>
    setup.database.query(
      `UPDATE outbox_message SET status = 'ready', attempts = 0, settled_at = NULL WHERE status = 'dead'`,
    );

  it('continue, the default: the key goes on without the dead message', async () => {
    await publish();
    const dispatcher = setup.dispatcher({ maxAttempts: 1 });
    expect(await dispatcher.runOnce()).toMatchObject({ dead: 1 });
    await dispatcher.runOnce();
    expect((await arrived()).sort()).toEqual(['a2', 'b1', 'free']);
  });

  it('G8, halt: the key waits for the dead one, whoever claims; the replayed one goes first', async () => {
    await publish();
    const options: OutboxOptions = { maxAttempts: 1, onDeadLetter: 'halt', dispatch: 'competing' };
    const [one, other] = [setup.dispatcher(options), setup.dispatcher(options)];
    expect(await one.runOnce()).toMatchObject({ dead: 1, sent: 2 });
    await setup.table.publish(keyed('q', 'a', 'a3'), keyed('q', 'b', 'b2'));
    expect(await Promise.all([other.runOnce(), one.runOnce()])).toEqual([
      expect.objectContaining({ end: 'idle' }),
      expect.objectContaining({ end: 'idle' }),
    ]);
    expect((await arrived()).sort()).toEqual(['b1', 'b2', 'free']);

    await setup.broker.bind(queue, exchange, 'unbound');
    await replay();
    await other.runOnce();
    expect(await arrived()).toEqual(['a1', 'a2', 'a3']);
    await setup.broker.channel.unbindQueue(queue, exchange, 'unbound');
  });

  it('halt: an expired message stops its key too', async () => {
    await setup.table.publish(
      { ...keyed('q', 'k', 'old'), expiresAt: new Date(Date.now() - 1_000) },
      keyed('q', 'k', 'new'),
    );
    const dispatcher = setup.dispatcher({ onDeadLetter: 'halt' });
    expect(await dispatcher.runOnce()).toMatchObject({ dead: 1, sent: 0, released: 1 });
    expect(await dispatcher.runOnce()).toMatchObject({ sent: 0, end: 'idle' });
    await setup.database.query(`DELETE FROM outbox_message WHERE status = 'dead'`);
    expect(await dispatcher.runOnce()).toMatchObject({ sent: 1 });
    expect(await arrived()).toEqual(['new']);
  });

  it('G8, halt: the next leader keeps the key halted after the first was killed', async () => {
    const [first, second] = await Promise.all([launch(), launch()]);
    await first.request('start');
    await waitFor('the first to lead', () => leader(first));
    await second.request('start');
    await publish();
    await waitFor('the message to be dead', async () =>
      (await setup.rows()).some(({ status }) => status === 'dead'),
    );
    await first.kill();
    await setup.table.publish(keyed('q', 'a', 'a3'), keyed('q', 'b', 'b2'));
    await waitFor('the second to lead', () => leader(second));
    await waitFor('all but the halted key to be sent', async () => (await setup.rows()).length === 3);
    expect((await arrived()).filter((body) => body.startsWith('a'))).toEqual([]);

    await setup.broker.bind(queue, exchange, 'unbound');
    await replay();
    await waitFor('the key to follow', async () => (await setup.rows()).length === 0);
    expect(await arrived()).toEqual(['a1', 'a2', 'a3']);
    await setup.broker.channel.unbindQueue(queue, exchange, 'unbound');
  });

  async function launch(): Promise<AppProcess> {
    const options: OutboxOptions = {
      lease: LEASE,
      pollInterval: 100,
      publishTimeout: 700,
      maxAttempts: 1,
      onDeadLetter: 'halt',
    };
    const app = startAppProcess('test/integration/outbox-dispatch/fixtures/dispatcher-process.ts', {
      env: {
        DATABASE: setup.database.url,
        BROKER: setup.broker.url,
        OPTIONS: JSON.stringify(options),
      },
    });
    processes.push(app);
    await app.waitFor('ready');
    return app;
  }

  async function leader({ pid }: AppProcess): Promise<boolean> {
    const [row] = await setup.database.query<{ locked_by: string }>(
      `SELECT locked_by FROM shedlock
       WHERE name = 'outbox-dispatcher' AND lock_until > clock_timestamp() AT TIME ZONE 'UTC'`,
    );
    return row?.locked_by.includes(` ${pid} `) === true;
  }
});
