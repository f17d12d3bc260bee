/** Of an odd or even number of values. */
export function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}

/** Linear between neighbours. @param share 0 to 1 */
export function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  if (sorted.length === 0) return NaN;
  const place = (sorted.length - 1) * share;
  const low = Math.floor(place);
  const below = sorted[low]!;
  const above = sorted[Math.min(low + 1, sorted.length - 1)]!;
  return below + (above - below) * (place - low);
}
