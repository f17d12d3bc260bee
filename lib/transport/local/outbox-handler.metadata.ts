import 'reflect-metadata';
import type { ResolvedOutboxHandlerOptions } from './outbox-handler.options';

/** What `@OutboxHandler()` leaves behind. */
export interface OutboxHandlerMetadata {
  readonly name: string;
  readonly propertyKey: string;
  readonly options: ResolvedOutboxHandlerOptions;
}

/** Registered symbol: two copies of this package see each other's handlers. */
const OUTBOX_HANDLER = Symbol.for('nestjs-inbox-outbox:outbox-handler');

/** On the class and not on the function, where another decorator that replaces the method could lose it. */
export function declareHandler(prototype: object, metadata: OutboxHandlerMetadata): void {
  const { propertyKey } = metadata;
  const before = ownDeclarations(prototype, propertyKey);
  Reflect.defineMetadata(OUTBOX_HANDLER, [...before, metadata], prototype, propertyKey);
}

/** What was declared for the method that a class really has under this name, its own or an inherited one. */
export function handlersDeclaredOn(prototype: object, propertyKey: string): readonly OutboxHandlerMetadata[] {
  for (let owner: object | null = prototype; owner; owner = Object.getPrototypeOf(owner) as object | null) {
    if (Object.hasOwn(owner, propertyKey)) return ownDeclarations(owner, propertyKey);
  }
  return [];
}

function ownDeclarations(prototype: object, propertyKey: string): readonly OutboxHandlerMetadata[] {
  return (Reflect.getOwnMetadata(OUTBOX_HANDLER, prototype, propertyKey) ??
    []) as readonly OutboxHandlerMetadata[];
}
