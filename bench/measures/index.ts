import type { Measure } from '../harness/measure';
import { claim } from './claim';
import { competing } from './competing';
import { drain } from './drain';
import { idle } from './idle';
import { batches, inbox, inboxLatency } from './inbox';
import { hotKey, keys } from './keys';
import { latency } from './latency';
import { memory } from './memory';
import { publish, publishMany } from './publish';
import { snapshot } from './snapshot';

export const MEASURES: readonly Measure[] = [
  drain,
  keys,
  hotKey,
  competing,
  publish,
  publishMany,
  inbox,
  batches,
  inboxLatency,
  latency,
  claim,
  idle,
  memory,
  snapshot,
];
