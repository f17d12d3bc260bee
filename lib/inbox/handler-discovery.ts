import { RABBIT_HANDLER, type RabbitHandlerConfig } from '@golevelup/nestjs-rabbitmq';
import { Scope } from '@nestjs/common';
import { MetadataScanner, type DiscoveryService } from '@nestjs/core';
import { metadataOfDeclaration, metadataOfFunction, type IdempotentMetadata } from './idempotent.metadata';

type InstanceWrapper = ReturnType<DiscoveryService['getProviders']>[number];

/** One `@Idempotent()` method of one provider or controller: golevelup subscribes each of them once. */
export interface DiscoveredHandler {
  /** Class and method, for messages. */
  readonly name: string;
  readonly classRef: { readonly name: string };
  readonly kind: 'provider' | 'controller';
  /** Under which the application provides it. */
  readonly token: string;
  readonly metadata: IdempotentMetadata;
  /** As the prototype has it, own or inherited. */
  readonly method: object;
  /** The provider or controller; `undefined` where Nest has made none yet, which is so for scoped ones. */
  readonly instance: object | undefined;
  /** What golevelup's decorator left on the method. golevelup reads it after `onModuleInit`. */
  readonly config: RabbitHandlerConfig | undefined;
  /** Another decorator put a function of its own in the place of the one that carries the metadata. */
  readonly isReplaced: boolean;
  /** Made anew for each request or for each who injects it; golevelup then calls a placeholder without dependencies. */
  readonly isScoped: boolean;
}

/** Finds them the way golevelup does: on the prototypes of all providers, aliases too, and of all controllers. */
export function discoverHandlers(discovery: DiscoveryService): DiscoveredHandler[] {
  return [
    ...discovery.getProviders().flatMap((wrapper) => handlersOf(wrapper, 'provider')),
    ...discovery.getControllers().flatMap((wrapper) => handlersOf(wrapper, 'controller')),
  ];
}

const scanner = new MetadataScanner();

function handlersOf(wrapper: InstanceWrapper, kind: DiscoveredHandler['kind']): DiscoveredHandler[] {
  const prototype = prototypeOf(wrapper);
  if (!prototype) return [];
  return scanner.getAllMethodNames(prototype).flatMap((propertyKey) => {
    const metadata = metadataOfDeclaration(prototype, propertyKey);
    const method = prototype[propertyKey];
    if (!metadata || !method) return [];
    const classRef = prototype.constructor;
    return {
      name: `${classRef.name}.${propertyKey}`,
      classRef,
      kind,
      token: tokenName(wrapper.token),
      metadata,
      method,
      instance: instanceOf(wrapper),
      config: Reflect.getMetadata(RABBIT_HANDLER, method) as RabbitHandlerConfig | undefined,
      isReplaced: metadataOfFunction(method) !== metadata,
      isScoped:
        wrapper.scope === Scope.REQUEST ||
        wrapper.scope === Scope.TRANSIENT ||
        !wrapper.isDependencyTreeStatic(),
    };
  });
}

type Prototype = Record<string, object> & { constructor: { name: string } };

function instanceOf({ instance }: InstanceWrapper): object | undefined {
  return typeof instance === 'object' && instance !== null ? (instance as object) : undefined;
}

function prototypeOf(wrapper: InstanceWrapper): Prototype | undefined {
  const instance = instanceOf(wrapper);
  const found: unknown = instance ? Object.getPrototypeOf(instance) : wrapper.metatype?.prototype;
  return found === null || found === undefined ? undefined : (found as Prototype);
}

function tokenName(token: unknown): string {
  return typeof token === 'function' ? token.name : String(token);
}
