import type { PassResult } from './dispatch-pass';
import type { LaneResult } from './local-lane';

/** What a pass to the broker and one over the local handlers came to. The end is the broker's, where there is one. */
export function combined(broker: PassResult | undefined, local: LaneResult | undefined): PassResult {
  const { counts, trouble } = local ?? { trouble: false };
  const end = !broker || broker.end === 'idle' ? (trouble ? 'trouble' : 'idle') : broker.end;
  return {
    end,
    sent: (broker?.sent ?? 0) + (counts?.sent ?? 0),
    failed: (broker?.failed ?? 0) + (counts?.failed ?? 0),
    dead: (broker?.dead ?? 0) + (counts?.dead ?? 0),
    unknown: (broker?.unknown ?? 0) + (counts?.unknown ?? 0),
    released: (broker?.released ?? 0) + (counts?.released ?? 0),
  };
}
