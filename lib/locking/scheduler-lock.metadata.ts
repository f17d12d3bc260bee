import 'reflect-metadata';
import type { ResolvedSchedulerLockOptions } from './scheduler-lock.options';

const SCHEDULER_LOCK = Symbol.for('nestjs-inbox-outbox:scheduler-lock');

/** What `@SchedulerLock()` leaves behind. */
export interface SchedulerLockMetadata extends ResolvedSchedulerLockOptions {
  /** Class and method, for messages. */
  readonly owner: string;
}

/** On the class, where another decorator that replaces the function cannot lose it. */
export function declare(prototype: object, propertyKey: string, metadata: SchedulerLockMetadata): void {
  Reflect.defineMetadata(SCHEDULER_LOCK, metadata, prototype, propertyKey);
}

export function hasDeclaration(prototype: object, propertyKey: string): boolean {
  return Reflect.hasOwnMetadata(SCHEDULER_LOCK, prototype, propertyKey);
}

/** What was declared for the method that a class really has under this name, its own or an inherited one. */
export function declarationOf(prototype: object, propertyKey: string): SchedulerLockMetadata | undefined {
  for (let owner: object | null = prototype; owner; owner = Object.getPrototypeOf(owner) as object | null) {
    if (Object.hasOwn(owner, propertyKey)) {
      return Reflect.getOwnMetadata(SCHEDULER_LOCK, owner, propertyKey) as SchedulerLockMetadata | undefined;
    }
  }
  return undefined;
}
