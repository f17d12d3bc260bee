import { HandlerPauses } from '../../../lib/outbox/handler-pauses';
import { LocalLane, type LocalLaneDependencies } from '../../../lib/outbox/local-lane';
import { ConcurrencyGate } from '../../../lib/transaction/concurrency-gate';

const quiet = { log: () => undefined, warn: () => undefined, error: () => undefined };

describe('A pass over local messages', () => {
  it('looks again when it was asked to while the database had not answered yet', async () => {
    let looks = 0;
    const store = {
      anyLocalDue: async () => {
        if (++looks === 1) lane.request();
        return false;
      },
    };
    const lane: LocalLane = new LocalLane({
      store,
      handlers: () => [{ name: 'mailer', owner: 'test', options: {}, handle: async () => undefined }],
      pauses: new HandlerPauses(() => undefined),
      gate: new ConcurrencyGate(1),
      limit: 1,
      lease: 1_000,
      logger: quiet,
      wanted: () => true,
    } as unknown as LocalLaneDependencies);
    await lane.run();
    expect(looks).toBe(2);
    expect(lane.isRequested).toBe(false);
  });
});
