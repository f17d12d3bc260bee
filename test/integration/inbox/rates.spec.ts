import type { AppProcess } from '../../support/app-process';
import { waitFor } from '../../support/wait-for';
import { InboxSetup } from './inbox-setup';

/** What fails, by its body, and how often it may be delivered. */
const bodies = {
  failing: JSON.stringify({ id: 'failing', steps: ['effect', 'fail'] }),
  undecodable: 'not json',
  anonymous: JSON.stringify({ steps: ['effect'] }),
  tooLong: JSON.stringify({ id: 'y'.repeat(256), steps: ['effect'] }),
};

describe('at most two deliveries of one message in a second, whatever fails', () => {
  let setup: InboxSetup;
  beforeAll(async () => (setup = await InboxSetup.open()));
  afterEach(async () => {
    await setup.stopApps();
    await setup.database.query('DELETE FROM inbox_message');
  });
  afterAll(() => setup.close());

  const deliveries = (app: AppProcess, of: string) =>
    app
      .events<{ body: string; at: number }>('delivery')
      .filter(({ body }) => body === of)
      .map(({ at }) => at);

  it.each([
    ['retry', 1],
    ['reject', 4],
    ['requeue', 4],
  ] as const)("onFailure '%s'", async (onFailure, times) => {
    const queue = setup.broker.queue(`rate-${onFailure}`);
    const app = await setup.started('consumer-app', {
      queue,
      // What is rejected comes back from the dead-letter exchange at once.
      deadLetters: queue,
      variant: 'id-from-body',
      inbox: { maxAttempts: 3, backoff: { initialDelay: 50 }, pollInterval: 50 },
      idempotent: { onFailure, consumer: onFailure },
    });
    for (const body of Object.values(bodies)) await setup.broker.sendToQueue(queue, Buffer.from(body));
    await waitFor(
      'it to be delivered so often, or dead',
      async () =>
        deliveries(app, bodies.failing).length >= times &&
        (onFailure === 'reject' || (await setup.status('failing')) === 'dead'),
      { timeout: 25_000 },
    );
    await waitFor('the others to be dead', async () => (await dead()).length >= 3);

    for (const body of [bodies.undecodable, bodies.anonymous, bodies.tooLong]) {
      expect(deliveries(app, body)).toHaveLength(1);
    }
    const failing = deliveries(app, bodies.failing);
    if (onFailure !== 'reject') {
      // Three runs, by whatever way they come about; a requeued one comes once more, to be buried.
      expect(failing).toHaveLength(times);
      expect(app.events('run')).toHaveLength(3);
    }
    // Of three that follow each other, the first and the last are more than a second apart.
    const spans = failing.slice(2).map((at, index) => at - (failing[index] ?? 0));
    expect(spans.filter((span) => span < 1_000)).toEqual([]);
    expect(await setup.effectCount('failing')).toBe(0);
  });

  const dead = async () => (await setup.rows()).filter(({ status }) => status === 'dead');
});
