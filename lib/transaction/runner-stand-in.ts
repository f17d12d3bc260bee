import type { QueryRunner } from 'typeorm';

/** What a runner does on its connection; everything else it does is built on these. */
const REFUSED: ReadonlySet<PropertyKey> = new Set([
  'connect',
  'query',
  'stream',
  'startTransaction',
  'commitTransaction',
  'rollbackTransaction',
]);

const doNothing = () => Promise.resolve();

/**
 * A runner that looks alive and refuses everything with one error. It is handed out instead of a released runner, so that
 * callers see why, and see it as a rejection; TypeORM would tell them that the runner is released and nothing else.
 */
export function refusingRunner(runner: QueryRunner, reason: () => Error): QueryRunner {
  const refuse = () => Promise.reject(reason());
  return new Proxy(runner, {
    get(target, key, receiver) {
      if (REFUSED.has(key)) return refuse;
      if (key === 'isReleased') return false;
      if (key === 'isTransactionActive') return true;
      if (key === 'release') return doNothing;
      return Reflect.get(target, key, receiver) as unknown;
    },
  });
}

/**
 * The runner, to be used by somebody who thinks it was made for him and releases it when he is done: TypeORM's query
 * builders do that with each runner that they were not created with.
 */
export function borrowedRunner(runner: QueryRunner): QueryRunner {
  return new Proxy(runner, {
    get(target, key) {
      if (key === 'release') return doNothing;
      const value = Reflect.get(target, key, target) as unknown;
      return typeof value === 'function' ? (value.bind(target) as unknown) : value;
    },
    set(target, key, value) {
      return Reflect.set(target, key, value, target);
    },
  });
}
