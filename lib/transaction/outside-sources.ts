import type { TransactionSource } from './transaction-source';

/** Runs `fn` outside of the transactions of all sources. */
export function outsideSources<T>(sources: readonly TransactionSource[], fn: () => T): T {
  return sources.reduceRight<() => T>(
    (inner, source) => (source.outside ? () => source.outside!(inner) : inner),
    fn,
  )();
}
