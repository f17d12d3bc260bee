import { waitFor } from '../../support/wait-for';
import { InboxSetup, logged } from '../inbox/inbox-setup';

describe('limits of what the inbox table takes and a process holds', () => {
  let setup: InboxSetup;
  beforeAll(async () => (setup = await InboxSetup.open()));
  afterEach(() => setup.stopApps());
  afterAll(() => setup.close());

  const rowsOf = async (name: string) => (await setup.rows()).filter(({ consumer }) => consumer === name);
  const count = async (name: string, status: string) =>
    (await rowsOf(name)).filter((row) => row.status === status).length;

  it('back-pressure: above maxBacklog deliveries wait in the broker, and go on when there is room', async () => {
    const queue = setup.broker.queue('backlog');
    const app = await setup.started('consumer-app', {
      queue,
      inbox: { maxBacklog: 3, maxConcurrentHandlers: 1, pollInterval: 50 },
      idempotent: { processing: 'deferred', consumer: 'backlog' },
    });
    for (let n = 0; n < 12; n++) {
      await setup.broker.sendToQueue(queue, { steps: ['effect', 'gate on'] }, { messageId: `backlog-${n}` });
    }
    await waitFor('it to be full', () =>
      logged(app, 'warn').some((text) => text.includes('inbox.maxBacklog')),
    );
    // One runs, one waits for it in the process, three are open; the rest is not acked, and not all of it is here.
    await waitFor(
      'the table to be full',
      async () => (await count('backlog', 'open')) === 3 && (await count('backlog', 'in_progress')) === 2,
    );
    await waitFor('their acks', () => app.events('ack').length === 5);
    expect(app.events('delivery').length).toBeLessThanOrEqual(15);

    await app.request('open', 'on');
    await waitFor('all of them', async () => (await count('backlog', 'done')) === 12);
    expect(await setup.effectCount('backlog-11')).toBe(1);
    expect(logged(app, 'log').some((text) => text.includes('has room again'))).toBe(true);
  });

  it('G12: a shutdown lets a run finish or rolls it back at the deadline, and hands back what waits', async () => {
    const queue = setup.broker.queue('shutdown');
    const settings = {
      queue,
      inbox: { maxConcurrentHandlers: 2, pollInterval: 50 },
      idempotent: { processing: 'deferred' as const, consumer: 'shutdown' },
    };
    const app = await setup.started('consumer-app', settings);
    const send = (id: string, ...steps: string[]) =>
      setup.broker.sendToQueue(queue, { steps }, { messageId: id });
    await send('hangs', 'effect', 'gate never');
    await send('finishes', 'effect', 'gate soon');
    await waitFor('both to run', () => app.events('gate').length === 2);
    await send('waits-1', 'effect');
    await send('waits-2', 'effect');
    // The second may be left open: a claim is made when half of the room is free, and a poll may come between the two.
    await waitFor('those behind to be there, one of them claimed', async () => {
      const claimed = await count('shutdown', 'in_progress');
      return claimed >= 3 && claimed + (await count('shutdown', 'open')) === 4;
    });

    const closing = app.request('close').catch(() => undefined);
    await waitFor('what waits to be given back', async () => (await count('shutdown', 'open')) === 2);
    await app.request('open', 'soon');
    await waitFor('the one that finishes', async () => (await setup.status('finishes')) === 'done');
    await closing;
    expect(await app.exited).toEqual({ code: 0, signal: null });

    const rows = await setup.database.query(
      `SELECT message_id, status, attempts, claim_token FROM inbox_message WHERE consumer = 'shutdown' ORDER BY 1`,
    );
    const open = { status: 'open', attempts: 0, claim_token: null };
    expect(rows).toEqual([
      { message_id: 'finishes', status: 'done', attempts: 0, claim_token: null },
      { message_id: 'hangs', ...open },
      { message_id: 'waits-1', ...open },
      { message_id: 'waits-2', ...open },
    ]);
    expect(await setup.effectCount('hangs')).toBe(0);
  });

  it('G12: a shutdown uses up nothing of a message whose lost run was counted already', async () => {
    const queue = setup.broker.queue('suspect');
    const idempotent = { processing: 'deferred' as const, consumer: 'suspect' };
    // Claimed by a process that has died.
    await setup.database.query(
      `INSERT INTO inbox_message (consumer, message_id, status, available_at, claim_token, claimed_until, body)
       VALUES ('suspect', 'suspect', 'in_progress', now(), gen_random_uuid(), now(),
         convert_to('{"steps":["effect","gate never"]}', 'UTF8'))`,
    );
    for (let restarts = 0; restarts < 2; restarts++) {
      const app = await setup.started('consumer-app', { queue, inbox: { pollInterval: 50 }, idempotent });
      await app.waitFor('gate');
      await app.request('close').catch(() => undefined);
      await app.exited;
      expect(await rowsOf('suspect')).toMatchObject([{ status: 'open', attempts: 1, claim_token: null }]);
    }
  });
});
