import type { LockService } from './lock.service';
import { SchedulerLockError } from './scheduler-lock.error';

/** The lock service of a data source; `undefined` when the module is not registered for it. */
export type FindLocks = (dataSource: string | undefined) => LockService | undefined;

/** By instance, since two applications in one process may use one class. */
const applications = new WeakMap<object, FindLocks>();

/** From now on the jobs of this provider find their locks. */
export function bindLocks(provider: object, find: FindLocks): void {
  applications.set(provider, find);
}

/** @throws {SchedulerLockError} when the provider belongs to no application with the module: better no run than two */
export function locksOf(provider: object, job: string, dataSource: string | undefined): LockService {
  const locks = applications.get(provider)?.(dataSource);
  if (locks) return locks;
  throw new SchedulerLockError(
    job,
    'there is no lock, so it did not run. Import InboxOutboxModule.forRoot() into the application. (A unit test calls what the job calls, or mocks LockService and uses execute() in the job.)',
  );
}
