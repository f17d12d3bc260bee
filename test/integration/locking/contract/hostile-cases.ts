import { LockUnansweredError } from '../../../../lib/locking/lock-unanswered.error';
import { waitFor } from '../../../support/wait-for';
import type { ContractBench } from './contract-bench';

/** Where ShedLock is weak, and this is stronger. */
export function hostileCases(bench: () => ContractBench): void {
  const take = (...args: Parameters<ContractBench['take']>) => bench().take(...args);
  const tryLock = (name: string) => bench().locks.tryLock({ name, lockAtMostFor: 60_000 });
  const aborted = (signal: AbortSignal) => waitFor('the signal', () => signal.aborted, { interval: 2 });

  it('22. the fence grows strictly over take-overs', async () => {
    let last = 0n;
    for (let round = 0; round < 5; round++) {
      const handle = await take('job', round % 2 ? 40 : 60_000);
      expect(handle.fence).toBeGreaterThan(last);
      last = handle.fence;
      if (round % 2) await bench().expired('job');
      else await handle.unlock();
    }
  });

  it('23. the signal fires before the lock ends in the database', async () => {
    const handle = await take('job', 4_000);
    await aborted(handle.signal);
    expect(await bench().isHeld('job')).toBe(true);
    expect(handle.held).toBe(false);
    expect(handle.signal.reason).toMatchObject({ name: 'LockLostError', lock: 'job' });
  });

  it('24. a restart of the database while it is held: it is still held, extended and released', async () => {
    const handle = await take('job');
    const kept = await take('kept', 9_000, { keepAlive: true });
    await bench().database.restart();
    const next = await waitFor('the database', () => handle.extend(60_000));
    expect(await waitFor('the database', () => bench().isHeld('job'))).toBe(true);
    const until = kept.lockedUntil;
    await waitFor('a renewal after the restart', () => kept.lockedUntil > until);
    expect(kept.signal.aborted).toBe(false);
    expect(await next.unlock()).toBe(true);
    expect(await kept.unlock()).toBe(true);
    expect(await bench().isHeld('job')).toBe(false);
  });

  it('25. a lock statement that hangs: the deadline fires, and nobody waits for ever', async () => {
    const { database } = bench();
    const [remote] = await bench().connect({ wire: true }, 500);
    const kept = await take('kept', 4_000, { keepAlive: true }, remote);
    database.hold();
    await expect(remote.tryLock({ name: 'job', lockAtMostFor: 60_000 })).rejects.toThrow(LockUnansweredError);
    await aborted(kept.signal);
    expect(await bench().isHeld('kept')).toBe(true);
    expect(kept.held).toBe(false);
    database.resume();
    // The connection has been given up, so what arrives late is rolled back with it: nobody is kept out.
    await waitFor('the lock to be free', () => tryLock('job'));
  });

  it('26. a row that is deleted by hand, while held and while free, is inserted again', async () => {
    const { database } = bench();
    const handle = await take('job');
    await database.deleteRow('job');
    expect(await handle.extend(60_000)).toBeUndefined();
    const second = await take('job');
    await database.deleteRow('job');
    expect(await second.unlock()).toBe(false);
    await (await take('job')).unlock();
    await database.deleteRow('job');
    expect(await (await take('job')).unlock()).toBe(true);
  });

  it('27. with SERIALIZABLE as default isolation, many at once: one has it, the others get nothing and no error', async () => {
    const [strict] = await bench().connect({ serializable: true });
    for (let round = 0; round < 5; round++) {
      const taken = await Promise.all(
        Array.from({ length: 8 }, () => strict.tryLock({ name: 'job', lockAtMostFor: 60_000 })),
      );
      const [winner, ...others] = taken.filter((each) => each !== undefined);
      expect(others).toEqual([]);
      expect(await winner!.unlock()).toBe(true);
    }
  });

  it('28. a row as ShedLock writes it is respected and taken over, in both directions', async () => {
    const { shedLock, state, elapse } = bench().database;
    // Java first: inserted, extended and unlocked by its own statements.
    expect(await shedLock.insert('job', 'java-host', 30_000)).toBe(true);
    expect(await tryLock('job')).toBeUndefined();
    expect(await shedLock.extend('job', 'java-host', 60_000)).toBe(true);
    expect(await shedLock.insert('job', 'java-host', 60_000)).toBe(false);
    await elapse('job', 30_000);
    expect(await tryLock('job')).toBeUndefined();
    expect(await shedLock.unlock('job', 'java-host', 0)).toBe(true);
    // Then we.
    const ours = await take('job', 60_000);
    for (const statement of [shedLock.insert, shedLock.update]) {
      expect(await statement('job', 'java-host', 60_000)).toBe(false);
    }
    expect(await shedLock.extend('job', 'java-host', 60_000)).toBe(false);
    expect(await shedLock.unlock('job', 'java-host', 0)).toBe(false);
    // We run out, and Java takes it over; its statement leaves the fence as it is.
    await elapse('job', 60_000);
    expect(await shedLock.update('job', 'java-host', 60_000)).toBe(true);
    expect(await state('job')).toMatchObject({ held: true, owner: 'java-host', fence: ours.fence });
    expect(await ours.extend(60_000)).toBeUndefined();
    expect(await shedLock.unlock('job', 'java-host', 20_000)).toBe(true);
    // Its at-least is respected too.
    expect(await tryLock('job')).toBeUndefined();
    await elapse('job', 20_000);
    const again = await take('job', 60_000, { lockAtLeastFor: 15_000 });
    expect(again.fence).toBeGreaterThan(ours.fence);
    expect(await again.unlock()).toBe(true);
    // And ours by it.
    expect(await shedLock.insert('job', 'java-host', 60_000)).toBe(false);
    await elapse('job', 15_000);
    expect(await shedLock.insert('job', 'java-host', 60_000)).toBe(true);
  });
}
