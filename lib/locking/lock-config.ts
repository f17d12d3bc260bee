import { toMilliseconds, type Duration } from '../message/duration';
import { InvalidOptionError } from '../message/invalid-option.error';
import { timer } from '../message/option-checks';
import { checkLockName } from './lock-name';

/** What ShedLock calls a lock configuration. */
export interface LockConfig {
  /** Of the row in the lock table; at most 64 characters. Whoever uses the same name excludes each other. */
  name: string;
  /**
   * How long the lock holds when its holder dies: choose it well above the time that the work takes. At least 1 ms, at
   * most 24.8 days. With `keepAlive` the lock is renewed, and a fraction of that time will do.
   */
  lockAtMostFor: Duration;
  /**
   * How long the lock holds even if the work is done sooner, counted from when it was taken: for short jobs on machines
   * whose timers differ. Default 0; at most `lockAtMostFor`.
   */
  lockAtLeastFor?: Duration;
  /** Renew the lock at a third of `lockAtMostFor` until it is unlocked or lost. Default false. */
  keepAlive?: boolean;
}

/** Durations in milliseconds, every default filled in. */
export interface ResolvedLockConfig {
  readonly name: string;
  readonly lockAtMostFor: number;
  readonly lockAtLeastFor: number;
  readonly keepAlive: boolean;
}

const OPTIONS: readonly string[] = ['name', 'lockAtMostFor', 'lockAtLeastFor', 'keepAlive'];

/**
 * @param where whose options these are, for errors, for example `@SchedulerLock(Reports.nightly)`
 * @throws {InvalidOptionError} naming the option and its value
 */
export function resolveLockConfig(config: LockConfig, where = 'lock'): ResolvedLockConfig {
  if (typeof config !== 'object' || config === null) {
    throw new InvalidOptionError(where, config, 'an object with name and lockAtMostFor');
  }
  // A misspelt lockAtLeastFor would silently be none.
  for (const [option, value] of Object.entries(config)) {
    if (!OPTIONS.includes(option)) {
      throw new InvalidOptionError(`${where}.${option}`, value, `one of the options ${OPTIONS.join(', ')}`);
    }
  }
  const { keepAlive = false } = config;
  if (typeof keepAlive !== 'boolean') {
    throw new InvalidOptionError(`${where}.keepAlive`, keepAlive, 'true or false');
  }
  return {
    name: checkLockName(`${where}.name`, config.name),
    ...resolveLockTimes(config.lockAtMostFor, config.lockAtLeastFor, where),
    keepAlive,
  };
}

/** @throws {InvalidOptionError} naming the option and its value */
export function resolveLockTimes(
  lockAtMostFor: Duration,
  lockAtLeastFor: Duration = 0,
  where = 'lock',
): Pick<ResolvedLockConfig, 'lockAtMostFor' | 'lockAtLeastFor'> {
  const atMost = timer(`${where}.lockAtMostFor`, lockAtMostFor, 1);
  const atLeast = toMilliseconds(`${where}.lockAtLeastFor`, lockAtLeastFor);
  if (atLeast > atMost) {
    throw new InvalidOptionError(
      `${where}.lockAtLeastFor`,
      lockAtLeastFor,
      `at most lockAtMostFor (${atMost} ms)`,
    );
  }
  return { lockAtMostFor: atMost, lockAtLeastFor: atLeast };
}
