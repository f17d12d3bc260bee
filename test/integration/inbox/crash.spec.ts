import { InboxSetup } from './inbox-setup';

describe('G6: the ack comes after the commit, whoever crashes', () => {
  let setup: InboxSetup;
  beforeAll(async () => (setup = await InboxSetup.open()));
  afterEach(() => setup.stopApps());
  afterAll(() => setup.close());

  const boundaries = ['after take', 'inside the handler', 'before commit', 'after commit', 'before ack'];

  it.each(boundaries)('G6: SIGKILL %s: one effect in the end', async (boundary) => {
    const name = boundary.replaceAll(' ', '-');
    const queue = setup.broker.queue(name);
    const first = await setup.started('consumer-app', { queue }, { armed: [boundary] });
    const steps = ['effect', 'kill inside the handler'];
    await setup.broker.sendToQueue(queue, { steps }, { messageId: name });
    expect((await first.exited).signal).toBe('SIGKILL');
    const committed = boundary === 'after commit' || boundary === 'before ack';
    expect(await setup.effectCount(name)).toBe(committed ? 1 : 0);

    const second = await setup.started('consumer-app', { queue });
    await second.waitFor('ack');

    expect(await setup.effects(name)).toEqual({ [`Consumer.onMessage ${name}`]: 1 });
    expect(await setup.status(name)).toBe('done');
    expect(second.events('run')).toHaveLength(committed ? 0 : 1);
  });
});
