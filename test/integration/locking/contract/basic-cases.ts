import { setTimeout as delay } from 'node:timers/promises';
import { InvalidOptionError } from '../../../../lib/message/invalid-option.error';
import { LockHandleUsedError } from '../../../../lib/locking/lock-handle-used.error';
import { Transactions } from '../../../../lib/transaction/transactions';
import type { ContractBench } from './contract-bench';

/** What ShedLock's own suite asks of every store. */
export function basicCases(bench: () => ContractBench): void {
  const take = (...args: Parameters<ContractBench['take']>) => bench().take(...args);
  const tryLock = (name: string) => bench().locks.tryLock({ name, lockAtMostFor: 60_000 });
  const isHeld = (name: string) => bench().isHeld(name);

  it('1. take: the store shows it locked; unlock: the store shows it free', async () => {
    const handle = await take('job');
    expect(await isHeld('job')).toBe(true);
    expect(await handle.unlock()).toBe(true);
    expect(await isHeld('job')).toBe(false);
  });

  it('2. while it is held a second attempt gets nothing', async () => {
    await take('job');
    expect(await tryLock('job')).toBeUndefined();
  });

  it('3. two names are independent', async () => {
    await take('job');
    expect(await tryLock('other job')).toBeDefined();
  });

  it('4. lock, unlock, lock again', async () => {
    await (await take('job')).unlock();
    await (await take('job')).unlock();
    expect(await isHeld('job')).toBe(false);
  });

  it('5. at most 50 ms, never unlocked: free after 100 ms', async () => {
    await take('job', 50);
    await delay(100);
    expect(await isHeld('job')).toBe(false);
    expect(await tryLock('job')).toBeDefined();
  });

  it('6. ten rounds of lock, refused second attempt, unlock', async () => {
    for (let round = 0; round < 10; round++) {
      const handle = await take('job');
      expect(await tryLock('job')).toBeUndefined();
      expect(await handle.unlock()).toBe(true);
    }
  });

  it('7. at least 2 s, unlocked at once: still locked, free after 2 s', async () => {
    const started = performance.now();
    const handle = await take('job', 60_000, { lockAtLeastFor: 2_000 });
    expect(await handle.unlock()).toBe(true);
    expect(await isHeld('job')).toBe(true);
    expect(await tryLock('job')).toBeUndefined();
    await bench().expired('job');
    expect(performance.now() - started).toBeGreaterThanOrEqual(2_000);
    expect(await tryLock('job')).toBeDefined();
  });

  it('8. extended once: held past the first expiry', async () => {
    const handle = await take('job', 1_000);
    expect(await handle.extend(60_000)).toBeDefined();
    await delay(1_050);
    expect(await isHeld('job')).toBe(true);
    expect(await tryLock('job')).toBeUndefined();
  });

  it('9. extended three times', async () => {
    let handle = await take('job', 10_000);
    for (const atMost of [20_000, 30_000, 40_000]) {
      const next = (await handle.extend(atMost))!;
      expect(next.lockedUntil.getTime() - handle.lockedUntil.getTime()).toBeGreaterThanOrEqual(10_000);
      expect(next.signal).toBe(handle.signal);
      handle = next;
    }
    expect(await handle.unlock()).toBe(true);
    expect(await isHeld('job')).toBe(false);
  });

  it('10. extending an unlocked handle is an illegal state', async () => {
    const handle = await take('job');
    await handle.unlock();
    await expect(handle.extend(60_000)).rejects.toThrow(LockHandleUsedError);
    await expect(handle.unlock()).rejects.toThrow('Lock job: unlock() is not possible: it was unlocked');
    expect(await isHeld('job')).toBe(false);
  });

  it('10. a bad extension is refused with its value, and the handle stays good', async () => {
    const handle = await take('job', 60_000, { lockAtLeastFor: 10_000 });
    for (const [atMost, atLeast, value] of [
      [0, undefined, '0'],
      [2 ** 31, undefined, '2147483648'],
      ['25d', undefined, "'25d'"],
      [1_000, 2_000, '2000'],
    ] as const) {
      const refused = handle.extend(atMost, atLeast);
      await expect(refused).rejects.toThrow(InvalidOptionError);
      await expect(refused).rejects.toThrow(value);
    }
    expect(await handle.extend(60_000)).toBeDefined();
  });

  it('11. extending an expired lock gives nothing, and it stays free', async () => {
    const handle = await take('job', 50);
    await bench().expired('job');
    expect(await handle.extend(60_000)).toBeUndefined();
    expect(await isHeld('job')).toBe(false);
    expect(handle.signal.aborted).toBe(true);
  });

  it('12. extending with an at-least keeps it locked after unlock', async () => {
    const handle = await take('job', 10_000);
    const next = await handle.extend(20_000, 15_000);
    expect(await next!.unlock()).toBe(true);
    expect(await isHeld('job')).toBe(true);
    expect(await tryLock('job')).toBeUndefined();
  });

  it('13. the same handle cannot be extended twice', async () => {
    const handle = await take('job');
    await handle.extend(60_000);
    await expect(handle.extend(60_000)).rejects.toThrow(LockHandleUsedError);
    expect(await isHeld('job')).toBe(true);
  });

  it('14. the old handle cannot be unlocked after an extend', async () => {
    const handle = await take('job');
    await handle.extend(60_000);
    await expect(handle.unlock()).rejects.toThrow(/it was extended; use the handle that extend\(\) gave/);
    expect(await isHeld('job')).toBe(true);
  });

  it('15. a row that existed before the start is taken over', async () => {
    await (await take('job')).unlock();
    const [later] = await bench().connect();
    const handle = await take('job', 60_000, {}, later);
    expect(handle.fence).toBe(2n);
    expect(await isHeld('job')).toBe(true);
  });

  it('16. taking overwrites no unexpired lock and touches no other row', async () => {
    const { database } = bench();
    await take('other job');
    await (await take('free job')).unlock();
    await take('job');
    const rows = async () =>
      Promise.all(['job', 'other job', 'free job'].map((name) => database.state(name)));
    const before = await rows();
    expect(await tryLock('job')).toBeUndefined();
    await take('fourth job');
    expect(await rows()).toEqual(before);
  });

  it('17. inside a transaction of the application it neither sees nor joins it', async () => {
    const { connection, locks } = bench();
    const transactions = new Transactions(connection.dataSource);
    await expect(
      transactions.run(async (manager) => {
        // In the application's transaction the lock table shows what was there when it began.
        await manager.query('SELECT 1');
        await (await take('unlocked')).unlock();
        await take('kept');
        expect(await isHeld('kept')).toBe(true);
        await locks.execute({ name: 'executed', lockAtMostFor: 60_000 }, () => undefined);
        await manager.query('SELECT 1');
        throw new Error('roll back');
      }),
    ).rejects.toThrow('roll back');
    expect(await isHeld('kept')).toBe(true);
    expect(await bench().database.state('unlocked')).toMatchObject({ held: false, fence: 1n });
    expect(await bench().database.state('executed')).toMatchObject({ held: false, fence: 1n });
  });

  it('18. a name that is too long fails loudly (C14 c)', async () => {
    await expect(tryLock('x'.repeat(300))).rejects.toThrow(InvalidOptionError);
    await expect(tryLock('x'.repeat(65))).rejects.toThrow(/at most 64 characters; it has 65/);
    // Characters, not bytes, as the column counts.
    const longest = '€'.repeat(64);
    await take(longest);
    expect(await isHeld(longest)).toBe(true);
  });
}
