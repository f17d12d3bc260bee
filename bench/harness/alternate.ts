import type { Bar, Contender, MeasureReport, Result, Sample } from './measure';
import { median } from './statistics';

export interface Comparison {
  readonly title: string;
  readonly unit: string;
  readonly rounds: number;
  /** Whether a greater value is better. */
  readonly contenders: readonly Contender[];
  readonly bars: (of: Ratios) => Bar[];
}

/** Medians, and medians of the ratios within a round, which a slow moment of the machine disturbs less. */
export interface Ratios {
  readonly value: (contender: string) => number;
  readonly ratio: (contender: string, to: string) => number;
}

/**
 * Runs the contenders in turn, a warm-up round first, and begins each round with another one, so that whatever slows the
 * machine down for a while hits all of them.
 */
export async function alternate(comparison: Comparison): Promise<MeasureReport> {
  const { contenders, rounds, title, unit } = comparison;
  const samples = new Map<string, Sample[]>(contenders.map(({ name }) => [name, []]));
  try {
    for (let round = 0; round <= rounds; round++) {
      for (let turn = 0; turn < contenders.length; turn++) {
        const contender = contenders[(round + turn) % contenders.length]!;
        await contender.prepare?.(round);
        const sample = await contender.run(round);
        const isWarmUp = round === 0;
        if (!isWarmUp) samples.get(contender.name)!.push(sample);
      }
    }
  } finally {
    for (const contender of contenders) await contender.stop?.();
  }
  const values = (name: string) => samples.get(name)!.map(({ value }) => value);
  const ratios: Ratios = {
    value: (name) => median(values(name)),
    ratio: (name, to) => {
      const base = values(to);
      return median(values(name).map((value, round) => value / base[round]!));
    },
  };
  const results = contenders.map(({ name }) => summary(name, samples.get(name)!));
  return { title, unit, rounds, results, bars: comparison.bars(ratios) };
}

export function summary(contender: string, samples: readonly Sample[]): Result {
  const values = samples.map(({ value }) => value);
  const sum = (pick: (sample: Sample) => number | undefined) =>
    samples.reduce((total, sample) => total + (pick(sample) ?? 0), 0);
  return {
    contender,
    median: median(values),
    low: Math.min(...values),
    high: Math.max(...values),
    lost: sum(({ lost }) => lost),
    double: sum(({ double }) => double),
  };
}

export const atLeast = (text: string, value: number, bar: number): Bar => ({
  text: `≥ ${bar} × ${text}`,
  value,
  met: value >= bar,
});
