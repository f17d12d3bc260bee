import { HandlerPauses } from '../../../lib/outbox/handler-pauses';
import { LocalLane, type LocalLaneDependencies } from '../../../lib/outbox/local-lane';
import type { ClaimedMessage } from '../../../lib/persistence/outbox-statements';
import { ConcurrencyGate } from '../../../lib/transaction/concurrency-gate';

const quiet = { log: () => undefined, warn: () => undefined, error: () => undefined };

function laneWith(parts: object): LocalLane {
  return new LocalLane({
    handlers: () => [{ name: 'mailer', owner: 'test', options: {}, handle: async () => undefined }],
    pauses: new HandlerPauses(() => undefined),
    gate: new ConcurrencyGate(2),
    limit: 2,
    lease: 60_000,
    logger: quiet,
    wanted: () => true,
    renews: false,
    ...parts,
  } as unknown as LocalLaneDependencies);
}

describe('A pass over local messages', () => {
  it('looks again when it was asked to while the database had not answered yet', async () => {
    let looks = 0;
    const store = {
      anyLocalDue: async () => {
        if (++looks === 1) lane.request();
        return false;
      },
    };
    const lane: LocalLane = laneWith({ store });
    await lane.run();
    expect(looks).toBe(2);
    expect(lane.isRequested).toBe(false);
  });

  it('looks again when what ran has ended while a look still found its key busy', async () => {
    const message = { seq: '1', messageId: 'id-1', routingKey: 'mailer', expired: false } as ClaimedMessage;
    let end: () => void = () => undefined;
    const run = new Promise<{ kind: 'lost' }>((resolve) => (end = () => resolve({ kind: 'lost' })));
    const claims = [[message], [], []];
    let looks = 0;
    const store = {
      anyLocalDue: async () => claims.length > 0,
      localClaims: () => ({
        claim: async () => {
          if (++looks === 2) {
            end();
            await new Promise((resolve) => setTimeout(resolve, 20));
          }
          return claims.shift() ?? [];
        },
      }),
    };
    await laneWith({ store, runs: { run: () => run } }).run();
    expect(looks).toBe(3);
  });
});
