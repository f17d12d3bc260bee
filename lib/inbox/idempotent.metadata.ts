import 'reflect-metadata';
import type { ResolvedIdempotentOptions } from './idempotent.options';

/** Registered symbol: two copies of this package see each other's handlers instead of leaving them unprotected. */
export const IDEMPOTENT = Symbol.for('nestjs-inbox-outbox:idempotent');

/** What `@Idempotent()` leaves behind. */
export interface IdempotentMetadata {
  readonly propertyKey: string;
  readonly options: ResolvedIdempotentOptions;
}

/** Of the function that is called; golevelup copies it from the prototype's method to the bound one. */
export function metadataOfFunction(method: object): IdempotentMetadata | undefined {
  return Reflect.getMetadata(IDEMPOTENT, method) as IdempotentMetadata | undefined;
}

/** What was declared for the method that a class really has under this name, its own or an inherited one. */
export function metadataOfDeclaration(
  prototype: object,
  propertyKey: string,
): IdempotentMetadata | undefined {
  for (let owner: object | null = prototype; owner; owner = Object.getPrototypeOf(owner) as object | null) {
    if (Object.hasOwn(owner, propertyKey)) {
      return Reflect.getOwnMetadata(IDEMPOTENT, owner, propertyKey) as IdempotentMetadata | undefined;
    }
  }
  return undefined;
}
