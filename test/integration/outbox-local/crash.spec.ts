import { join } from 'node:path';
import { type AppProcess, startAppProcess } from '../../support/app-process';
import { waitFor } from '../../support/wait-for';
import { LocalSetup } from './local-setup';

interface Handling {
  name: string;
  messageId: string;
  attempt: number;
}

const LEASE = 1_000;

describe('local handlers in processes that die or sleep', () => {
  let setup: LocalSetup;
  /** They start together, since that takes longest. */
  let processes: AppProcess[];
  let sleeper: AppProcess;
  let other: AppProcess;

  beforeAll(async () => {
    setup = await LocalSetup.open();
    processes = [
      ...Array.from({ length: 5 }, () => start({ OPTIONS: JSON.stringify({ lease: LEASE }) })),
      start({ SHUTDOWN_TIMEOUT: '300ms' }),
    ];
    await Promise.all(processes.map((each) => each.waitFor('ready', undefined, { timeout: 60_000 })));
    [sleeper, other] = processes.splice(0, 2) as [AppProcess, AppProcess];
  }, 70_000);
  afterEach(async () => {
    await Promise.all([sleeper.request('rest'), other.request('rest')]);
    await setup.reset();
  });
  afterAll(async () => {
    await Promise.all([sleeper, other, ...processes].map((each) => each.close()));
    await setup.close();
  });

  const start = (env: Record<string, string>) =>
    startAppProcess(join(__dirname, 'fixtures/local-app.ts'), {
      env: { DATABASE: setup.database.url, ...env },
    });

  const next = () => processes.shift() as AppProcess;
  const handling = (process: AppProcess, expected: string) =>
    process.waitFor<Handling>('handling', ({ name }) => name === expected);
  const isEmpty = () => waitFor('an empty outbox', async () => (await setup.rows()).length === 0);
  const leaseIsOver = () =>
    waitFor('the end of the lease', async () => {
      const [row] = await setup.database.query<{ over: boolean }>(
        'SELECT claimed_until < clock_timestamp() AS over FROM outbox_message',
      );
      return row?.over;
    });

  it('G5: SIGKILL inside a handler: it runs again with the same id, and takes effect once', async () => {
    const killed = next();
    await killed.request('arm', { point: 'in-handler' });
    const id = await setup.insert('save', { name: 'a' });
    await killed.request('work');
    const before = await handling(killed, 'a');
    await killed.exited;
    expect(await setup.effects()).toEqual([]);
    await other.request('work');
    expect(await handling(other, 'a')).toEqual(before);
    expect(before).toEqual({ name: 'a', messageId: id, attempt: 1 });
    await isEmpty();
    expect(await setup.effects()).toEqual(['a']);
  });

  it('G2: SIGKILL inside a handler without a transaction: it runs again with the same id', async () => {
    const killed = next();
    await killed.request('arm', { point: 'in-handler' });
    const id = await setup.insert('outside', { name: 'b' });
    await killed.request('work');
    await handling(killed, 'b');
    await killed.exited;
    await other.request('work');
    expect(await handling(other, 'b')).toEqual({ name: 'b', messageId: id, attempt: 1 });
    await isEmpty();
    // At least once: the first run had written on its own.
    expect(await setup.effects()).toEqual(['b', 'b']);
  });

  it('G9: a handler that sleeps beyond its lease is not run by anybody else, and takes effect once', async () => {
    await sleeper.request('arm', { point: 'in-handler', signal: 'SIGSTOP' });
    await setup.insert('save', { name: 'c' });
    await sleeper.request('work');
    await handling(sleeper, 'c');
    await leaseIsOver();
    await other.request('work');
    await setup.insert('save', { name: 'd' });
    await other.waitFor<Handling>('handled', ({ name }) => name === 'd');
    sleeper.cont();
    await isEmpty();
    expect(await setup.effects()).toEqual(['c', 'd']);
    expect(other.events<Handling>('handling').filter(({ name }) => name === 'c')).toEqual([]);
  });

  it('G9: a process that sleeps after the claim drops what another has handled since', async () => {
    await sleeper.request('arm', { point: 'before-transaction', signal: 'SIGSTOP' });
    await setup.insert('save', { name: 'e' });
    await sleeper.request('work');
    await waitFor('a claim', async () => (await setup.rows())[0]?.claim_token);
    await leaseIsOver();
    await other.request('work');
    await handling(other, 'e');
    await isEmpty();
    await other.request('rest');
    sleeper.cont();
    await setup.insert('save', { name: 'f' });
    await handling(sleeper, 'f');
    await isEmpty();
    expect(await setup.effects()).toEqual(['e', 'f']);
    expect(sleeper.events<Handling>('handling').filter(({ name }) => name === 'e')).toEqual([]);
  });

  it('a handler without a transaction runs for longer than the lease, and nobody else begins it', async () => {
    await sleeper.request('hold');
    await setup.insert('outside', { name: 'g' });
    await sleeper.request('work');
    await handling(sleeper, 'g');
    await other.request('work');
    const untils = new Set<string>();
    await waitFor('six renewals', async () => {
      const claimed = await setup.database.query<{ until: string }>(
        'SELECT claimed_until::text AS until FROM outbox_message WHERE claim_token IS NOT NULL',
      );
      for (const { until } of claimed) untils.add(until);
      return untils.size > 6;
    });
    await sleeper.request('let go');
    await isEmpty();
    expect(await setup.effects()).toEqual(['g']);
    expect(other.events<Handling>('handling').filter(({ name }) => name === 'g')).toEqual([]);
  });

  it('G12: a shutdown waits for running handlers, then hands the message back and uses no attempt', async () => {
    const [quick, slow] = [next(), next()];
    await quick.request('hold');
    await setup.insert('save', { name: 'h' });
    await quick.request('work');
    await handling(quick, 'h');
    void quick.kill('SIGTERM');
    await quick.request('let go');
    await quick.exited;
    expect(await setup.effects()).toEqual(['h']);
    expect(await setup.rows()).toEqual([]);

    await slow.request('hold');
    await setup.insert('save', { name: 'i' });
    await setup.insert('outside', { name: 'j' });
    await slow.request('work');
    await handling(slow, 'i');
    await handling(slow, 'j');
    void slow.kill('SIGTERM');
    await slow.waitFor('aborted');
    await slow.exited;
    expect(await setup.effects()).toEqual(['h', 'j']);
    expect(await setup.rows()).toMatchObject([
      { routing_key: 'save', status: 'ready', attempts: 0, claim_token: null },
      { routing_key: 'outside', status: 'ready', attempts: 0, claim_token: null },
    ]);
  });
});
