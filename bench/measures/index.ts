import type { Measure } from '../harness/measure';
import { claim } from './claim';
import { drain } from './drain';
import { hotKey, keys } from './keys';
import { memory } from './memory';
import { publish, publishMany } from './publish';

export const MEASURES: readonly Measure[] = [drain, keys, hotKey, publish, publishMany, claim, memory];
