import { waitFor } from '../../support/wait-for';
import { InboxSetup } from './inbox-setup';

describe('a message that kills the process', () => {
  let setup: InboxSetup;
  beforeAll(async () => (setup = await InboxSetup.open()));
  afterAll(() => setup.close());

  it('the poison is dead with its body and its 19 neighbours are handled, at prefetch 20', async () => {
    const queue = setup.broker.queue('poison');
    await setup.broker.assertQueue(queue, {
      deadLetterExchange: '',
      deadLetterRoutingKey: setup.deadLetters,
    });
    for (let n = 0; n < 20; n++) {
      // The neighbours are in the middle of their work when the process dies.
      const steps = n === 4 ? ['effect', 'die'] : ['effect', 'sql SELECT pg_sleep(0.05)'];
      await setup.broker.sendToQueue(queue, { n, steps }, { messageId: `poison-${n}`, headers: { n } });
    }

    let deaths = 0;
    let over = false;
    const supervise = async () => {
      while (!over) {
        const app = setup.start('consumer-app', {
          queue,
          prefetch: 20,
          poolSize: 25,
          inbox: { maxAttempts: 4 },
        });
        await Promise.race([app.exited, waitFor('the end', () => over, { timeout: 60_000 })]);
        if (!over) deaths++;
      }
    };
    const supervisor = supervise();
    await waitFor(
      'all twenty to be settled',
      async () =>
        (await setup.rows()).filter(({ status }) => status === 'done' || status === 'dead').length === 20,
      { timeout: 50_000, interval: 100 },
    );
    over = true;
    await setup.stopApps();
    await supervisor;

    const dead = (await setup.rows()).filter(({ status }) => status === 'dead');
    expect(dead.map(({ message_id }) => message_id)).toEqual(['poison-4']);
    expect(JSON.parse(String(dead[0]?.body))).toEqual({ n: 4, steps: ['effect', 'die'] });
    expect(JSON.parse(dead[0]?.headers ?? '')).toEqual({ n: 4 });
    expect(dead[0]?.last_error).toContain('Given up after 4 deliveries');
    expect(deaths).toBe(4);
    expect(await setup.effectCount('poison-4')).toBe(0);
    const effects = Object.values(await setup.effects());
    expect(effects).toEqual(Array<number>(19).fill(1));
    // Counted one at a time: no neighbour came near the limit.
    const neighbours = (await setup.rows()).filter(({ status }) => status === 'done');
    expect(Math.max(...neighbours.map(({ attempts }) => attempts))).toBeLessThanOrEqual(2);
  });
});
