import { setTimeout as delay } from 'node:timers/promises';
import type { OutboxOptions } from '../../../lib/inbox-outbox.options';
import type { AppProcess } from '../../support/app-process';
import { startTcpProxy } from '../../support/tcp-proxy';
import { Replicas } from './replicas';

const LEASE = 2_000;
const POLL = 100;

describe('Leadership of processes', () => {
  let replicas: Replicas;
  beforeEach(async () => (replicas = await Replicas.open()));
  afterEach(() => replicas.close());

  const launch = (options: OutboxOptions = {}, env = {}): Promise<AppProcess> =>
    replicas.launch(
      'outbox-dispatch/fixtures/dispatcher-process',
      { lease: LEASE, pollInterval: POLL, publishTimeout: 1_000, ...options },
      env,
    );

  it('G9: a leader that was paused beyond its lease publishes and settles nothing more, and releases nobody else’s lock', async () => {
    const { collector } = replicas;
    const [a, b] = await Promise.all([launch({ maxInFlight: 1 }), launch()]);
    await a.request('arm', { point: 'after-3-confirms', signal: 'SIGSTOP' });
    await a.request('start');
    await replicas.leading(a);
    await b.request('start');
    const ids = await replicas.publish(10);
    await a.waitFor('point');
    await replicas.leading(b);
    await replicas.arrived(ids);
    await replicas.empty();
    const ofB = (await replicas.lock())!;
    const before = collector.messages.length;

    a.cont();
    // Its stop ends the batch and gives back what it still takes for its own.
    await a.request('stop');
    expect(a.events<{ kind: string }>('outcome').filter(({ kind }) => kind === 'sent')).toHaveLength(3);
    for (const { settled } of a.events<{ settled: number }>('settled')) expect(settled).toBe(0);
    expect(collector.messages.length).toBe(before);
    expect(await replicas.lock()).toMatchObject({ held: true, owner: ofB.owner, fence: ofB.fence });
    await replicas.arrived(await replicas.publish(2));
  });

  it('G9: a pass that takes longer than the lease is led to its end by one, and sends each message once', async () => {
    const { broker, collector } = replicas;
    const proxy = await startTcpProxy(broker.url);
    try {
      const [slow, other] = await Promise.all([
        launch({ maxInFlight: 1, publishTimeout: LEASE - 100 }, { BROKER: proxy.through(broker.url) }),
        launch(),
      ]);
      await slow.request('start');
      const { fence } = await replicas.leading(slow);
      await other.request('start');
      proxy.delay(150); // on the way there and on the way back
      const began = performance.now();
      await replicas.arrived(await replicas.publish(11));
      expect(performance.now() - began).toBeGreaterThan(1.5 * LEASE);
      expect(await replicas.leads(slow)).toMatchObject({ fence });
      await replicas.empty();
      expect(collector.messages).toHaveLength(11);
    } finally {
      await proxy.close();
    }
  });

  it('competing: every instance sends, each message once, without a leader', async () => {
    const both = await Promise.all([0, 1].map(() => launch({ dispatch: 'competing', batchSize: 5 })));
    const ids = await replicas.publish(200);
    await Promise.all(both.map((each) => each.request('start')));
    await replicas.arrived(ids);
    await replicas.empty();
    expect(replicas.collector.messages.length).toBe(200);
    expect(await replicas.lock()).toBeUndefined();
  });

  it('off: writes only; nothing is sent and no lock is taken', async () => {
    const [off, leader] = await Promise.all([launch({ dispatch: 'off' }), launch()]);
    await off.request('start');
    const ids = await replicas.publish(3);
    await delay(3 * POLL);
    expect(replicas.collector.messages).toHaveLength(0);
    expect(await replicas.lock()).toBeUndefined();
    await leader.request('start');
    await replicas.arrived(ids);
    expect(off.events('outcome')).toEqual([]);
  });
});
