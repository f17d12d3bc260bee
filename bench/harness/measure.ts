import type { World } from './world';

/** What one contender did in one round. */
export interface Sample {
  /** In the measure's unit. */
  readonly value: number;
  /** Messages without an effect, and effects too many. A row where these are not 0 is invalid. */
  readonly lost?: number;
  readonly double?: number;
}

export interface Contender {
  readonly name: string;
  /** Untimed; before each round. */
  prepare?(round: number): Promise<void>;
  run(round: number): Promise<Sample>;
  stop?(): Promise<void>;
}

/** What has to hold, decided from the medians of one run. */
export interface Bar {
  /** E.g. `≥ 0.90 × raw confirms in flight`. */
  readonly text: string;
  readonly value: number;
  readonly met: boolean;
}

export interface Result {
  readonly contender: string;
  readonly median: number;
  readonly low: number;
  readonly high: number;
  readonly lost: number;
  readonly double: number;
}

export interface MeasureReport {
  readonly title: string;
  readonly unit: string;
  readonly rounds: number;
  readonly results: readonly Result[];
  readonly bars: readonly Bar[];
}

export interface Settings {
  /** At least 9 for a run that counts. */
  readonly rounds: number;
  /** Share of the full size, 1 for a run that counts. */
  readonly scale: number;
}

export interface Measure {
  readonly name: string;
  run(world: World, settings: Settings): Promise<MeasureReport>;
}
