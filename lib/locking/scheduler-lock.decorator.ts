import 'reflect-metadata';
import { InvalidOptionError } from '../message/invalid-option.error';
import { locksOf } from './scheduler-lock.binding';
import { declare, hasDeclaration, type SchedulerLockMetadata } from './scheduler-lock.metadata';
import { resolveSchedulerLockOptions, type SchedulerLockOptions } from './scheduler-lock.options';

type Method = (this: object, ...args: unknown[]) => unknown;

/**
 * Runs a scheduled job under a lock: of all processes that share the database, one runs it and the others skip.
 *
 * For `@Cron()`, `@Interval()` and `@Timeout()` methods of providers and controllers, above or below them. The method gets
 * the lock as its argument ({@link LockContext}, with `signal` and `fence`); its error goes where an error of a job goes
 * otherwise. A call by hand takes the lock too. Several jobs may share a name: then they exclude each other.
 *
 * The lock is taken by the method itself, so that a job whose lock is missing does not run: without `InboxOutboxModule` it
 * throws a {@link SchedulerLockError}, which @nestjs/schedule logs. What cannot be protected (a request-scoped provider, a
 * method that is no scheduled job, a data source that is not registered) keeps the application from starting.
 *
 * A decorator that opens a transaction belongs below this one, so that the lock is given back after the commit.
 *
 * @throws {InvalidOptionError} when the decorator is evaluated, naming the option and its value
 */
export function SchedulerLock(options: SchedulerLockOptions): MethodDecorator {
  return (target: object, propertyKey: string | symbol, descriptor: PropertyDescriptor) => {
    const owner = `${typeof target === 'function' ? target.name : target.constructor.name}.${String(propertyKey)}`;
    if (typeof target === 'function' || typeof propertyKey === 'symbol') {
      throw new InvalidOptionError(
        '@SchedulerLock()',
        owner,
        'a method of the prototype with a name: @nestjs/schedule finds no other',
      );
    }
    const method: unknown = descriptor?.value;
    if (typeof method !== 'function') throw new InvalidOptionError('@SchedulerLock()', owner, 'a method');
    if (hasDeclaration(target, propertyKey)) {
      throw new InvalidOptionError('@SchedulerLock()', owner, 'one @SchedulerLock() on a method');
    }
    const metadata: SchedulerLockMetadata = { owner, ...resolveSchedulerLockOptions(options, owner) };
    declare(target, propertyKey, metadata);
    descriptor.value = underLock(method as Method, metadata);
  };
}

/**
 * @nestjs/schedule takes the function that it finds on the prototype when its module starts, which may be before ours does:
 * putting the lock around the method at start could come too late, and would not happen at all without our module. So the
 * function itself is replaced, here. It carries the metadata of decorators below; those above write theirs on it.
 */
function underLock(method: Method, { owner, config, dataSource }: SchedulerLockMetadata): Method {
  const locked: Method = async function (this: object) {
    const { result } = await locksOf(this, owner, dataSource).execute(config, (lock) =>
      method.call(this, lock),
    );
    return result;
  };
  for (const key of Reflect.getOwnMetadataKeys(method)) {
    Reflect.defineMetadata(key, Reflect.getOwnMetadata(key, method), locked);
  }
  return Object.defineProperties(locked, {
    name: { value: method.name, configurable: true },
    length: { value: method.length, configurable: true },
  });
}
