import { setTimeout as delay } from 'node:timers/promises';
import { SchedulerRegistry } from '@nestjs/schedule';
import { InboxCleaner } from '../../../lib/inbox/inbox-cleaner';
import { HeldLock } from '../../../lib/locking/held-lock';
import { Leader } from '../../../lib/locking/leader';
import { newLockOwner } from '../../../lib/locking/lock-owner';
import { LockStore } from '../../../lib/locking/lock-store';
import { LockUnansweredError } from '../../../lib/locking/lock-unanswered.error';
import { LockedJob } from '../../../lib/locking/locked-job';
import { OutboxCleaner } from '../../../lib/outbox/outbox-cleaner';
import { OutboxStore } from '../../../lib/outbox/outbox-store';
import { DATABASE_URL } from '../../support/servers';
import { startTcpProxy, type TcpProxy } from '../../support/tcp-proxy';
import { createTestDatabase, type TestDatabase } from '../../support/test-database';
import { waitFor } from '../../support/wait-for';
import { openOutboxTable, type OutboxTable, RecordingLogger } from '../outbox-dispatch/outbox-table';
import { lockRow } from './lock-row';

describe('The lock on the database', () => {
  let database: TestDatabase;
  let proxy: TcpProxy;
  let table: OutboxTable;
  let locks: LockStore;
  let logger: RecordingLogger;
  beforeAll(async () => {
    database = await createTestDatabase({ prefix: 'locking' });
    proxy = await startTcpProxy(DATABASE_URL);
    table = await openOutboxTable(proxy.through(database.url));
    await table.createTables();
    locks = new LockStore(table);
  });
  beforeEach(() => (logger = new RecordingLogger()));
  afterEach(async () => {
    await proxy.accept();
    proxy.resume();
    await database.query('TRUNCATE shedlock');
  });
  afterAll(async () => {
    await table?.close();
    await proxy?.close();
    await database?.close();
  });

  const held = (name: string) => lockRow(database, name);
  const lead = async (name: string, lease: number) => {
    const leader = new Leader(locks, name, lease, logger);
    return { leader, lock: await leader.tryLead() };
  };

  it('who holds it has it alone; whoever comes later skips, and takes over when it is released, with a higher fence', async () => {
    const first = await lead('job', 20_000);
    expect(first.lock?.held).toBe(true);
    expect((await lead('job', 20_000)).lock).toBeUndefined();
    await first.leader.resign();
    const second = await lead('job', 20_000);
    expect(second.lock?.held).toBe(true);
    expect(BigInt(second.lock!.fence)).toBeGreaterThan(BigInt(first.lock!.fence));
    await second.leader.resign();
    expect(await held('job')).toMatchObject({ held: false });
  });

  it('is kept for as long as it is wanted, far beyond its lease, and tells nobody that it is lost', async () => {
    const { leader, lock } = await lead('job', 2_000);
    await delay(3_000); // one and a half leases
    expect(lock?.held).toBe(true);
    expect(lock?.signal.aborted).toBe(false);
    expect(await leader.tryLead()).toBe(lock);
    expect(await held('job')).toMatchObject({ held: true });
    await leader.resign();
  });

  it('is given back by itself when it is not wanted any more', async () => {
    let wanted = true;
    const leader = new Leader(locks, 'job', 3_000, logger, () => wanted);
    await leader.tryLead();
    wanted = false;
    await waitFor('the lock to be free', async () => (await held('job'))?.held === false);
    expect(leader.leads).toBe(false);
    expect(logger.lines).toEqual([]);
  });

  it('C41: who has lost it cannot release or extend the lock of the one who has it now', async () => {
    const grant = await locks.take('job', newLockOwner(), 100);
    const taken = await waitFor('the take-over', () => locks.take('job', newLockOwner(), 5_000));
    expect(await locks.extend(grant!, 5_000)).toBeUndefined();
    expect(await locks.release(grant!)).toBe(false);
    expect(await held('job')).toMatchObject({ held: true, owner: taken.owner, fence: BigInt(taken.fence) });
  });

  it('C41: a lock that somebody else has taken is reported by the signal', async () => {
    const { lock } = await lead('job', 3_000);
    await database.query(
      "UPDATE shedlock SET locked_by = 'another host', fence = fence + 1, lock_until = lock_until + interval '1 minute'",
    );
    await waitFor('the signal', () => lock!.signal.aborted);
    expect(lock?.held).toBe(false);
    expect(await held('job')).toMatchObject({ owner: 'another host' });
    await lock?.release();
    expect(await held('job')).toMatchObject({ held: true, owner: 'another host' });
  });

  it('a row that was deleted by hand while held is lost, and can be taken again', async () => {
    const { leader, lock } = await lead('job', 3_000);
    await database.query('DELETE FROM shedlock');
    await waitFor('the signal', () => lock!.signal.aborted);
    expect((await leader.tryLead())?.held).toBe(true);
    await leader.resign();
  });

  it('a database that refuses connections for less than the lease costs nothing but a warning', async () => {
    const { leader, lock } = await lead('job', 3_000);
    await proxy.refuse();
    await waitFor('a renewal that fails', () => logger.count(/could not be extended/));
    await proxy.accept();
    await delay(3_000); // beyond the lease that was granted
    expect(lock?.held).toBe(true);
    expect(lock?.signal.aborted).toBe(false);
    await leader.resign();
  });

  it('a lock that was taken although the answer got lost is given back as soon as the database answers again', async () => {
    const { take } = table.dialect.lock;
    const lock: typeof table.dialect.lock = {
      ...table.dialect.lock,
      async take(...args) {
        const row = await take(...args);
        proxy.hold('down'); // the COMMIT gets through, and its answer does not
        return row;
      },
    };
    const deaf = new LockStore({ ...table, dialect: { ...table.dialect, lock }, statementTimeout: 300 });
    await expect(deaf.take('job', newLockOwner(), 60_000)).rejects.toThrow(LockUnansweredError);
    expect(await held('job')).toMatchObject({ held: true });
    proxy.resume();
    await waitFor('the lock to be free', async () => (await held('job'))?.held === false);
  });

  it('another error of the database is an error, not "not obtained"', async () => {
    await expect(locks.take('x'.repeat(65), newLockOwner(), 1_000)).rejects.toThrow(/too long/);
    await proxy.refuse();
    await expect(locks.take('job', newLockOwner(), 1_000)).rejects.toThrow();
  });

  describe('a job under a lock', () => {
    const job = (work: (signal: AbortSignal) => Promise<unknown>, interval = 20, name = 'cleaner') =>
      new LockedJob({ name, interval, lease: 3_000, scheduler, locks, logger, work });
    let scheduler: SchedulerRegistry;
    beforeEach(() => (scheduler = new SchedulerRegistry()));

    it('shows in the registry, runs one at a time and under the lock, and can be stopped there', async () => {
      let running = 0;
      let most = 0;
      let runs = 0;
      const slow = job(async () => {
        expect(await held('cleaner')).toMatchObject({ held: true });
        most = Math.max(most, ++running);
        await delay(60);
        running--;
        runs++;
      });
      slow.start();
      expect(scheduler.getIntervals()).toEqual(['cleaner']);
      await waitFor('three runs', () => runs >= 3);
      expect(most).toBe(1);
      scheduler.deleteInterval('cleaner');
      const before = runs;
      await delay(300); // fifteen intervals
      // One may have been on its way.
      expect(runs).toBeLessThanOrEqual(before + 1);
      await slow.stop();
      await slow.stop();
    });

    it('skips while another process has the lock', async () => {
      const grant = await locks.take('cleaner', newLockOwner(), 10_000);
      expect(await job(() => Promise.resolve()).runOnce()).toBe(false);
      await locks.release(grant!);
      expect(await job(() => Promise.resolve()).runOnce()).toBe(true);
    });

    it('logs a failure once, goes on, and says when it works again', async () => {
      let fail = true;
      let runs = 0;
      const flaky = job(async () => {
        runs++;
        if (fail) throw new Error('on purpose');
      });
      flaky.start();
      await waitFor('three failures', () => runs >= 3);
      fail = false;
      await waitFor('that it works again', () => logger.count(/works again/));
      await flaky.stop();
      expect(logger.count(/^error .*on purpose/)).toBe(1);
    });

    it('tells its work to end when it is stopped', async () => {
      let told = false;
      let begun = false;
      const endless = job(async (signal) => {
        begun = true;
        while (!signal.aborted) await delay(5);
        told = true;
      });
      endless.start();
      await waitFor('the work', () => begun);
      await endless.stop();
      expect(told).toBe(true);
      expect(await held('cleaner')).toMatchObject({ held: false });
    });
  });

  it('the cleaners have locks of their own: one that is held elsewhere keeps only its own cleaner from working', async () => {
    const scheduler = new SchedulerRegistry();
    const common = { scheduler, locks, logger, interval: 60_000, batchSize: 100, retention: 1_000 };
    const outbox = new OutboxCleaner({ ...common, store: new OutboxStore(table) });
    const inbox = new InboxCleaner({ ...common, store: { deleteDone: () => Promise.resolve(0) } });
    const grant = await locks.take('outbox-cleaner', newLockOwner(), 60_000);
    expect([await outbox.runOnce(), await inbox.runOnce()]).toEqual([false, true]);
    await locks.release(grant!);
    await locks.take('inbox-cleaner', newLockOwner(), 60_000);
    expect([await outbox.runOnce(), await inbox.runOnce()]).toEqual([true, false]);
  });

  it('a lock that is released while it is being extended is not extended afterwards', async () => {
    const grant = await locks.take('job', newLockOwner(), 3_000);
    let extending = false;
    const slow = {
      extend: async (...args: Parameters<LockStore['extend']>) => {
        extending = true;
        await delay(100);
        return locks.extend(...args);
      },
      release: (...args: Parameters<LockStore['release']>) => locks.release(...args),
    };
    const lock = new HeldLock(slow, grant!, 3_000, logger);
    await waitFor('the extension to begin', () => extending, { interval: 1 });
    await lock.release();
    expect(await held('job')).toMatchObject({ held: false });
    expect(logger.lines).toEqual([]);
  });
});
