import type { DataSource } from 'typeorm';
import { ConcurrencyGate } from '../../../lib/transaction/concurrency-gate';
import { pauseAfter, Pauses } from '../../../lib/inbox/pauses';
import { restorePayload } from '../../../lib/inbox/payload';
import { RunningDeliveries } from '../../../lib/inbox/running-deliveries';
import { ShuttingDownError } from '../../../lib/transaction/shutting-down.error';

describe('the gate', () => {
  const sizeWith = (options: object, size?: number) =>
    ConcurrencyGate.ofPool({ options } as unknown as DataSource, size).size;

  it.each<[object, number]>([
    [{}, 8],
    [{ poolSize: 5 }, 3],
    [{ poolSize: 5, extra: { max: 20 } }, 18],
    [{ extra: { connectionLimit: 4 } }, 2],
    [{ poolSize: 2 }, 1],
    [{ poolSize: 1 }, 1],
  ])('C04: leaves two connections free where there are that many: %j', (options, expected) => {
    expect(sizeWith(options)).toBe(expected);
  });

  it('is as wide as it is told to be', () => {
    expect(sizeWith({ poolSize: 2 }, 7)).toBe(7);
  });

  it('counts a handler in the gate around its own too', async () => {
    const outer = new ConcurrencyGate(2);
    const inner = new ConcurrencyGate(1, outer);
    const leave = await inner.enter();
    expect(inner.tryEnter()).toBeUndefined();
    const leaveOuter = outer.tryEnter();
    expect(leaveOuter).toBeDefined();
    expect(outer.tryEnter()).toBeUndefined();
    leave();
    expect(outer.tryEnter()).toBeDefined();
    expect(inner.tryEnter()).toBeUndefined();
    leaveOuter?.();
    expect(inner.tryEnter()).toBeDefined();
  });

  it('lets in who waits in the order of their coming, before anybody who comes later', async () => {
    const gate = new ConcurrencyGate(1);
    const leave = gate.tryEnter();
    const log: string[] = [];
    const waiting = ['a', 'b'].map(async (name) => {
      const leaveLater = await gate.enter();
      log.push(name);
      expect(gate.tryEnter()).toBeUndefined();
      leaveLater();
    });
    leave?.();
    expect(gate.tryEnter()).toBeUndefined();
    await Promise.all(waiting);
    expect(log).toEqual(['a', 'b']);
    expect(gate.tryEnter()).toBeDefined();
  });

  it.each(['its own', 'the outer'])(
    'G12: who waits for a place of %s when it stops leaves no trace',
    async (which) => {
      const outer = new ConcurrencyGate(1);
      const inner = new ConcurrencyGate(which === 'its own' ? 1 : 2, outer);
      const stop = new AbortController();
      const leave = inner.tryEnter();
      const waiting = inner.enter(stop.signal);
      const next = inner.enter();
      stop.abort();
      await expect(waiting).rejects.toThrow(ShuttingDownError);
      await expect(inner.enter(stop.signal)).rejects.toThrow(ShuttingDownError);
      leave?.();
      (await next)();
      expect(inner.tryEnter()).toBeDefined();
    },
  );
});

describe('pauses', () => {
  it('grow, stay within the limit and never become less than three quarters', () => {
    for (let tries = 1; tries < 2_000; tries++) {
      const full = Math.min(60_000, 700 * 2 ** Math.min(tries - 1, 30));
      const pause = pauseAfter(tries, 700, 60_000);
      expect(pause).toBeLessThanOrEqual(full);
      expect(pause).toBeGreaterThanOrEqual(full * 0.75);
    }
  });

  it('end at once when the application stops, and none begins after that', async () => {
    const pauses = new Pauses();
    const waiting = pauses.wait(60_000);
    pauses.stop();
    await expect(waiting).rejects.toThrow(ShuttingDownError);
    await expect(pauses.wait(60_000)).rejects.toThrow(ShuttingDownError);
    expect(() => pauses.assertRunning()).toThrow(ShuttingDownError);
  });
});

describe('draining', () => {
  it('waits for what runs, and for what starts in the meantime', async () => {
    const running = new RunningDeliveries();
    let finish = () => undefined as void;
    const first = running.track(() => new Promise<void>((resolve) => (finish = resolve)));
    const draining = running.drain(60_000);
    const second = running.track(async () => first);
    finish();
    expect(await draining).toBe(0);
    await second;
    expect(running.count).toBe(0);
  });

  it('cuts off what does not end in time, and counts it', async () => {
    const running = new RunningDeliveries();
    const cut = running.track(
      (abort) => new Promise<string>((resolve) => abort.addEventListener('abort', () => resolve('cut'))),
    );
    expect(await running.drain(10)).toBe(1);
    expect(await cut).toBe('cut');
  });
});

describe('a payload that a handler has changed', () => {
  it.each<[unknown, (payload: never) => void, unknown]>([
    [
      { a: 1, b: { c: 2 } },
      (payload: { a?: number; d?: number }) => (delete payload.a, (payload.d = 4)),
      { a: 1, b: { c: 2 } },
    ],
    [[1, 2, 3], (payload: number[]) => payload.splice(0, 2, 9), [1, 2, 3]],
    [Buffer.from('abc'), (payload: Buffer) => payload.fill(0), Buffer.from('abc')],
    [{ ['__proto__x']: 1 }, () => undefined, { ['__proto__x']: 1 }],
  ])('is as it was: %j', (payload, change, fresh) => {
    change(payload as never);
    restorePayload(payload, fresh);
    expect(payload).toEqual(fresh);
  });

  it('is left alone where it is of a class of its own, or nothing is known', () => {
    const date = new Date(5);
    restorePayload(date, new Date(9));
    restorePayload({ a: 1 }, undefined);
    expect(date.getTime()).toBe(5);
  });
});
