import type { AppProcess } from '../../support/app-process';
import { waitFor } from '../../support/wait-for';
import { InboxSetup, logged } from '../inbox/inbox-setup';

const inbox = { backoff: { initialDelay: 100 }, pollInterval: 100, maxAttempts: 3 } as const;
const deferred = { processing: 'deferred' as const };

describe("processing: 'deferred'", () => {
  let setup: InboxSetup;
  let app: AppProcess;
  let queue: string;
  beforeAll(async () => {
    setup = await InboxSetup.open();
    queue = setup.broker.queue('deferred');
    app = await setup.started('consumer-app', { queue, inbox, idempotent: deferred });
  });
  afterAll(() => setup.close());

  const send = (messageId: string, ...steps: string[]) =>
    setup.broker.sendToQueue(queue, { steps }, { messageId });
  const ends = (messageId: string, status: string) =>
    waitFor(`${messageId} to be ${status}`, async () => (await setup.status(messageId)) === status);
  const of = (type: string, messageId: string) =>
    app.events<{ messageId: string }>(type).filter((event) => event.messageId === messageId);

  it('G6: the message is stored, acked, and handled from the table, once', async () => {
    await send('plain', 'effect', 'gate plain');
    await waitFor('its ack', () => of('ack', 'plain').length === 1);
    await app.waitFor('gate');
    expect(await setup.status('plain')).toBe('in_progress'); // as everybody else sees it
    await app.request('open', 'plain');
    await ends('plain', 'done');
    expect(await setup.effectCount('plain')).toBe(1);
    expect((await setup.rows('plain'))[0]).toMatchObject({ attempts: 0, body: null });
  });

  it('G7: done twice: a duplicate never completes one that is running', async () => {
    await send('running', 'effect', 'gate running', 'fail 1');
    await app.waitFor<{ name: string }>('gate', ({ name }) => name === 'running');
    await send('running', 'effect');
    await waitFor('the ack of the copy', () => of('ack', 'running').length === 2);
    expect(await setup.status('running')).toBe('in_progress');
    await app.request('open', 'running');
    await ends('running', 'done');
    // The first run has failed after the copy: only because the copy changed nothing was there a second one.
    expect(of('run', 'running')).toHaveLength(2);
    expect(await setup.effectCount('running')).toBe(1);

    await send('running', 'effect');
    await waitFor('the ack of a late copy', () => of('ack', 'running').length === 3);
    expect(await setup.effectCount('running')).toBe(1);
  });

  it('G11: one that fails is handled again, and dead in the end with its body', async () => {
    await send('fails', 'effect', 'fail');
    await ends('fails', 'dead');
    expect(of('run', 'fails')).toHaveLength(3);
    const [row] = await setup.rows('fails');
    expect(row).toMatchObject({ attempts: 3 });
    expect(row?.body?.toString()).toContain('fail');
    expect(of('delivery', 'fails')).toHaveLength(1);
  });

  it('G11: what is thrown may have no text: handled again, and dead in the end', async () => {
    await send('no-text', 'effect', 'fail-without-text');
    await ends('no-text', 'dead');
    expect(of('run', 'no-text')).toHaveLength(3);
    expect((await setup.rows('no-text'))[0]?.last_error).toContain("asked: 'to fail'");
  });

  it('a rejected copy in the dead letters of an earlier version is stored and handled', async () => {
    // Counted by a process that handled inline: the row is there, and nobody has handled the message.
    await setup.database.query(
      `INSERT INTO inbox_message (consumer, message_id, status, attempts) VALUES ('Consumer.onMessage', 'seen', 'seen', 1)`,
    );
    await send('seen', 'effect');
    await ends('seen', 'done');
    expect(await setup.effectCount('seen')).toBe(1);
  });

  it('a hundred at once, some of them twice: each handled once', async () => {
    const sent = Array.from({ length: 120 }, (_, n) => send(`many-${n % 100}`, 'effect'));
    await Promise.all(sent);
    await waitFor('all of them', async () => {
      const rows = (await setup.rows()).filter(({ message_id }) => message_id.startsWith('many-'));
      return rows.length === 100 && rows.every(({ status }) => status === 'done');
    });
    const effects = Object.entries(await setup.effects()).filter(([key]) => key.includes('many-'));
    expect(effects).toHaveLength(100);
    expect(effects.every(([, count]) => count === 1)).toBe(true);
  });

  it('a row of a consumer that nobody here handles waits, untouched', async () => {
    await setup.database.query(
      `INSERT INTO inbox_message (consumer, message_id, status, available_at, body)
       VALUES ('Renamed.onMessage', 'unknown', 'open', clock_timestamp() - interval '1 hour', '{}')`,
    );
    await send('after-unknown', 'effect');
    await ends('after-unknown', 'done');
    expect((await setup.rows('unknown'))[0]).toMatchObject({ status: 'open', attempts: 0 });
  });

  it.each(['READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE'] as const)(
    '%s: the row lock is the lease: handlers and waiting messages outlast theirs, each handled once',
    async (isolationLevel) => {
      const name = isolationLevel.toLowerCase().replace(' ', '-');
      const other = setup.broker.queue(name);
      const options = {
        // Two at once, two that wait and are renewed; each takes two and a half leases.
        inbox: { ...inbox, lease: 600, pollInterval: 50, maxConcurrentHandlers: 2 },
        idempotent: { ...deferred, isolationLevel, consumer: name },
      };
      const apps = [
        await setup.started('consumer-app', { queue: other, ...options, poolSize: 6 }),
        await setup.started('consumer-app', { queue: other, ...options, poolSize: 6 }),
      ];
      for (let n = 0; n < 8; n++) {
        const steps = ['effect', 'sql SELECT pg_sleep(1.5)'];
        await setup.broker.sendToQueue(other, { steps }, { messageId: `${name}-${n}` });
      }
      const rows = async () => (await setup.rows()).filter(({ consumer }) => consumer === name);
      await waitFor('all of them', async () => {
        const found = await rows();
        return found.length === 8 && found.every(({ status }) => status === 'done');
      });
      const runs = apps.flatMap((each) => each.events('run'));
      // A serialization failure ends the row lock, and then anybody may go on with the message.
      if (isolationLevel !== 'SERIALIZABLE') {
        expect(runs).toHaveLength(8);
        expect((await rows()).every(({ attempts }) => attempts === 0)).toBe(true);
      }
      for (let n = 0; n < 8; n++) expect(await setup.effectCount(`${name}-${n}`)).toBe(1);
      expect(apps.flatMap((each) => logged(each, 'error'))).toEqual([]);
      await Promise.all(apps.map((each) => each.close()));
    },
  );
});
