import { InvalidOptionError } from '../message/invalid-option.error';
import { resolveLockConfig, type LockConfig, type ResolvedLockConfig } from './lock-config';

/** Options of `@SchedulerLock()`: those of the lock, and where its table is. */
export interface SchedulerLockOptions extends LockConfig {
  /** Name of the data source whose lock table it is. Default: the default one, or the only one that is registered. */
  dataSource?: string;
}

export interface ResolvedSchedulerLockOptions {
  readonly config: ResolvedLockConfig;
  readonly dataSource: string | undefined;
}

/** @throws {InvalidOptionError} naming the option and its value */
export function resolveSchedulerLockOptions(
  options: SchedulerLockOptions,
  owner: string,
): ResolvedSchedulerLockOptions {
  const where = `@SchedulerLock(${owner})`;
  const { dataSource, ...config } = options ?? ({} as SchedulerLockOptions);
  if (dataSource !== undefined && (typeof dataSource !== 'string' || dataSource === '')) {
    throw new InvalidOptionError(`${where}.dataSource`, dataSource, 'the name of a data source');
  }
  return { config: resolveLockConfig(config, where), dataSource };
}
