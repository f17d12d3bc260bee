import { Scope } from '@nestjs/common';
import { MetadataScanner, type DiscoveryService } from '@nestjs/core';
import { bindLocks, type FindLocks } from './scheduler-lock.binding';
import { SchedulerLockError } from './scheduler-lock.error';
import { declarationOf, type SchedulerLockMetadata } from './scheduler-lock.metadata';

type InstanceWrapper = ReturnType<DiscoveryService['getProviders']>[number];
type Prototype = Record<string, object | undefined>;

/** What @nestjs/schedule's decorators leave on a method; its constants are not part of its public surface. */
const SCHEDULER_TYPE = 'SCHEDULER_TYPE';

const scanner = new MetadataScanner();

/**
 * Finds the methods with `@SchedulerLock()` the way @nestjs/schedule finds jobs, refuses those that would not run under their
 * lock, and tells the others where their locks are. Before the first job runs: all start in `onApplicationBootstrap`.
 *
 * @param names of the data sources that are registered, for errors
 * @throws {SchedulerLockError} naming class and method, and the remedy
 */
export function exploreSchedulerLocks(
  discovery: DiscoveryService,
  find: FindLocks,
  names: readonly string[],
): void {
  for (const wrapper of [...discovery.getProviders(), ...discovery.getControllers()]) {
    const prototype = prototypeOf(wrapper);
    if (!prototype) continue;
    for (const propertyKey of scanner.getAllMethodNames(prototype)) {
      const metadata = declarationOf(prototype, propertyKey);
      if (!metadata) continue;
      check(wrapper, prototype[propertyKey], metadata);
      if (!find(metadata.dataSource)) throw unknownDataSource(metadata, names);
      bindLocks(wrapper.instance as object, find);
    }
  }
}

function check(wrapper: InstanceWrapper, method: object | undefined, { owner }: SchedulerLockMetadata): void {
  if (!method || Reflect.getMetadata(SCHEDULER_TYPE, method) === undefined) {
    throw new SchedulerLockError(
      owner,
      'it is no scheduled job. Add @Cron(), @Interval() or @Timeout(), or use LockService.execute() elsewhere. (If it has one, another decorator has replaced the method without copying its metadata.)',
    );
  }
  if (
    wrapper.scope === Scope.REQUEST ||
    wrapper.scope === Scope.TRANSIENT ||
    !wrapper.isDependencyTreeStatic()
  ) {
    throw new SchedulerLockError(
      owner,
      'its class is request-scoped or transient, or depends on something that is; @nestjs/schedule cannot run it. Make it a singleton.',
    );
  }
}

function unknownDataSource(
  { owner, dataSource }: SchedulerLockMetadata,
  names: readonly string[],
): SchedulerLockError {
  const known = names.map((each) => `"${each}"`).join(', ');
  return new SchedulerLockError(
    owner,
    dataSource === undefined
      ? `several data sources are registered and none is the default one, so say which with the option dataSource: ${known}.`
      : `InboxOutboxModule is not registered for the data source "${dataSource}". It is for: ${known}.`,
  );
}

function prototypeOf({ instance, metatype }: InstanceWrapper): Prototype | undefined {
  const found: unknown =
    typeof instance === 'object' && instance !== null ? Object.getPrototypeOf(instance) : metatype?.prototype;
  return found === null || found === undefined ? undefined : (found as Prototype);
}
