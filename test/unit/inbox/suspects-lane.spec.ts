import { SuspectsLane } from '../../../lib/inbox/suspects-lane';

describe('the lane of redelivered messages', () => {
  it('lets one in at a time, in the order of their coming', async () => {
    const lane = new SuspectsLane(60_000);
    const log: string[] = [];
    const work = (name: string) => async () => {
      log.push(`${name} in`);
      await Promise.resolve();
      log.push(`${name} out`);
    };
    await Promise.all(['a', 'b'].map((name) => lane.run(work(name))));
    expect(log).toEqual(['a in', 'a out', 'b in', 'b out']);
  });

  it('one that hangs does not hold up the others for ever', async () => {
    const lane = new SuspectsLane(20);
    let end: () => void = () => undefined;
    const hanging = lane.run(() => new Promise<void>((resolve) => (end = resolve)));
    expect(await lane.run(() => Promise.resolve('next'))).toBe('next');
    end();
    await hanging;
    // Its late end has let nobody in who should have waited.
    const log: string[] = [];
    const slow = lane.run(async () => {
      await new Promise((resolve) => setTimeout(resolve, 5));
      log.push('slow');
    });
    const other = lane.run(async () => {
      await Promise.resolve();
      log.push('other');
    });
    await Promise.all([slow, other]);
    expect(log).toEqual(['slow', 'other']);
  });
});
